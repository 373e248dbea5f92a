package herdsman.recipes;

import static java.util.Map.entry;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.UriSpec;

/** Service discovery with text payloads. The path is the base path. */
final class Services {
    private final Peer peer;
    private final Handles<ServiceDiscovery<String>> discoveries;

    Services(Peer peer) {
        this.peer = peer;
        discoveries = new Handles<>(peer, ServiceDiscovery::close);
    }

    Map<String, Verb> verbs() {
        return Map.ofEntries(
                entry("discovery register", this::register),
                entry("discovery unregister", this::unregister),
                entry("discovery names", command -> discovery(command).queryForNames().stream().sorted().toList()),
                entry("discovery list", command -> listed(discovery(command), command.text(0))),
                entry("discovery uris", command -> uris(discovery(command), command.text(0))));
    }

    private ServiceDiscovery<String> discovery(Command command) throws Exception {
        return discoveries.orMake(command, () -> {
            ServiceDiscovery<String> discovery = ServiceDiscoveryBuilder.builder(String.class)
                    .client(peer.client)
                    .basePath(command.path())
                    .build();
            discovery.start();
            return discovery;
        });
    }

    /** Arguments: name, id, address, port, and optionally payload and URI specification. */
    private List<?> register(Command command) throws Exception {
        ServiceInstanceBuilder<String> instance = ServiceInstance.<String>builder()
                .name(command.text(0))
                .id(command.text(1))
                .address(command.text(2))
                .port(command.integer(3));
        if (command.has(4)) {
            instance.payload(command.text(4));
        }
        if (command.has(5)) {
            instance.uriSpec(new UriSpec(command.text(5)));
        }
        discovery(command).registerService(instance.build());
        return Verb.DONE;
    }

    /** Arguments: name, id. */
    private List<?> unregister(Command command) throws Exception {
        ServiceInstance<String> instance =
                ServiceInstance.<String>builder().name(command.text(0)).id(command.text(1)).build();
        discovery(command).unregisterService(instance);
        return Verb.DONE;
    }

    private static List<ServiceInstance<String>> instances(ServiceDiscovery<String> discovery, String name)
            throws Exception {
        List<ServiceInstance<String>> instances = new ArrayList<>(discovery.queryForInstances(name));
        instances.sort(Comparator.comparing(ServiceInstance::getId));
        return instances;
    }

    /** Id, address, port, payload and whether it is enabled, of each instance, ordered by id. */
    private static List<?> listed(ServiceDiscovery<String> discovery, String name) throws Exception {
        List<Object> words = new ArrayList<>();
        for (ServiceInstance<String> instance : instances(discovery, name)) {
            words.add(instance.getId());
            words.add(instance.getAddress() == null ? "" : instance.getAddress());
            words.add(instance.getPort() == null ? "" : instance.getPort());
            words.add(instance.getPayload() == null ? "" : instance.getPayload());
            words.add(instance.isEnabled());
        }
        return words;
    }

    private static List<?> uris(ServiceDiscovery<String> discovery, String name) throws Exception {
        return instances(discovery, name).stream().map(ServiceInstance::buildUriSpec).toList();
    }
}
