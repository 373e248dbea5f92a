import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.URIParameter;
import java.util.HexFormat;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.callback.PasswordCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.RealmCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslClient;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;

/** The JDK's side of a login, step by step as it is told on standard input. See ../README.md. */
public final class Peer {
    private static final String MECHANISM = "DIGEST-MD5";

    private SaslClient client;
    private SaslServer server;

    public static void main(String[] args) throws IOException {
        Peer peer = new Peer();
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println(peer.answer(line.split(" ")));
        }
    }

    private String answer(String[] words) throws IOException {
        switch (words[0]) {
            case "client":
                client = newClient(text(words[1]), text(words[2]), text(words[3]), text(words[4]));
                server = null;
                return "ok";
            case "server":
                server = newServer(text(words[1]), text(words[2]), text(words[3]), text(words[4]));
                client = null;
                return "ok";
            case "step":
                return step(bytes(words[1]));
            case "jaas":
                return section(text(words[1]), text(words[2]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String step(byte[] token) {
        try {
            if (client != null) {
                byte[] response = client.evaluateChallenge(token);
                return client.isComplete() ? "done " + hex(response) + " -" : "continue " + hex(response);
            }
            byte[] challenge = server.evaluateResponse(token);
            if (!server.isComplete()) {
                return "continue " + hex(challenge);
            }
            return "done " + hex(challenge) + " " + hex(server.getAuthorizationID());
        } catch (SaslException e) {
            System.err.println("refused: " + e.getMessage());
            return "refused";
        }
    }

    /** As ZooKeeper makes one: the user's name is the identity that is asked for, too. */
    private static SaslClient newClient(String user, String password, String protocol, String name)
            throws SaslException {
        String[] mechanisms = {MECHANISM};
        return Sasl.createSaslClient(mechanisms, user, protocol, name, null, callbacks -> {
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback) {
                    ((NameCallback) callback).setName(user);
                } else if (callback instanceof PasswordCallback) {
                    ((PasswordCallback) callback).setPassword(password.toCharArray());
                } else if (callback instanceof RealmCallback) {
                    RealmCallback realm = (RealmCallback) callback;
                    realm.setText(realm.getDefaultText());
                }
            }
        });
    }

    private static SaslServer newServer(String user, String password, String protocol, String name)
            throws SaslException {
        return Sasl.createSaslServer(MECHANISM, protocol, name, null, callbacks -> {
            boolean isKnown = false;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback) {
                    isKnown = user.equals(((NameCallback) callback).getDefaultName());
                } else if (callback instanceof PasswordCallback && isKnown) {
                    ((PasswordCallback) callback).setPassword(password.toCharArray());
                } else if (callback instanceof AuthorizeCallback) {
                    AuthorizeCallback identity = (AuthorizeCallback) callback;
                    String asked = identity.getAuthorizationID();
                    identity.setAuthorized(identity.getAuthenticationID().equals(asked));
                    identity.setAuthorizedID(asked);
                }
            }
        });
    }

    private static String section(String text, String name) throws IOException {
        Path file = Files.createTempFile("jaas", ".conf");
        try {
            Files.writeString(file, text);
            Configuration configuration =
                    Configuration.getInstance("JavaLoginConfig", new URIParameter(file.toUri()));
            AppConfigurationEntry[] modules = configuration.getAppConfigurationEntry(name);
            if (modules == null) {
                return "absent";
            }
            Stream<String> shown = Stream.of(modules).map(Peer::module);
            return "section " + shown.collect(Collectors.joining(" "));
        } catch (Exception e) {
            Throwable root = e;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            System.err.println("refused: " + root.getMessage());
            return "refused";
        } finally {
            Files.delete(file);
        }
    }

    private static String module(AppConfigurationEntry module) {
        // The flag's text is "LoginModuleControlFlag: required".
        String flag = module.getControlFlag().toString().replaceAll(".* ", "").toLowerCase(Locale.ROOT);
        Map<String, Object> sorted = new TreeMap<>(module.getOptions());
        Stream<String> options =
                sorted.entrySet().stream().map(o -> hex(o.getKey()) + "=" + hex((String) o.getValue()));
        String joined = options.collect(Collectors.joining(","));
        return hex(module.getLoginModuleName()) + " " + flag + " " + (joined.isEmpty() ? "-" : joined);
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? new byte[0] : HexFormat.of().parseHex(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static String hex(byte[] bytes) {
        return bytes == null || bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
    }

    private static String hex(String text) {
        return hex(text.getBytes(StandardCharsets.UTF_8));
    }
}
