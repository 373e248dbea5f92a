package herdsman;

import static herdsman.World.equal;
import static herdsman.World.eventually;
import static herdsman.World.isTrue;

import java.util.List;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;

/** Service discovery. */
final class DiscoveryChecks {
    static final List<Check> ALL = List.of(new Check("service discovery", DiscoveryChecks::discovery));

    private DiscoveryChecks() {}

    private static ServiceDiscovery<Void> discovery(World world, ServiceInstance<Void> own) throws Exception {
        ServiceDiscoveryBuilder<Void> builder = ServiceDiscoveryBuilder.builder(Void.class)
                .client(world.client())
                .basePath(world.path("services"));
        if (own != null) {
            builder = builder.thisInstance(own);
        }
        ServiceDiscovery<Void> discovery = builder.build();
        discovery.start();
        return discovery;
    }

    private static ServiceInstance<Void> instance(int port) throws Exception {
        return ServiceInstance.<Void>builder().name("echo").address("127.0.0.1").port(port).build();
    }

    private static void discovery(World world) throws Exception {
        try (ServiceDiscovery<Void> reader = discovery(world, null);
                ServiceDiscovery<Void> one = discovery(world, instance(1));
                ServiceDiscovery<Void> two = discovery(world, instance(2));
                ServiceProvider<Void> provider = reader.serviceProviderBuilder().serviceName("echo").build()) {
            provider.start();
            eventually(() -> reader.queryForInstances("echo").size() == 2, "two instances");
            equal(List.of("echo"), List.copyOf(reader.queryForNames()), "names");
            eventually(() -> provider.getAllInstances().size() == 2, "two instances at the provider");
            isTrue(provider.getInstance() != null, "an instance to use");
            two.close();
            eventually(() -> provider.getAllInstances().size() == 1, "one instance left");
            equal(1, provider.getInstance().getPort(), "the one that is left");
            one.close();
        }
    }
}
