//! Configuration files as users of Apache's releases 3.4 to 3.9 have them.

/// What a 3.9 user has after copying the sample.
pub(super) const SAMPLE: &str = "\
# one tick, in milliseconds
tickTime=2000
# ticks for the first synchronisation
initLimit=10
# ticks between a request and its acknowledgement
syncLimit=5
dataDir=/tmp/zookeeper
clientPort=2181
#maxClientCnxns=60
#autopurge.snapRetainCount=3
#autopurge.purgeInterval=1
";

/// What Debian's package installs, in short.
pub(super) const DEBIAN: &str = "\
# The number of milliseconds per tick
tickTime=2000
initLimit=10
syncLimit=5
dataDir=/var/lib/zookeeper
# Put the logs on another disk
# dataLogDir=/disk2/zookeeper

clientPort=2181

# the members; the number is in the file myid
#server.1=zookeeper1:2888:3888
#server.2=zookeeper2:2888:3888

#preAllocSize=65536
#snapCount=1000
#traceFile=

# the leader takes clients
leaderServes=yes

autopurge.purgeInterval=24
autopurge.snapRetainCount=5
";

/// What Kafka's distribution has.
pub(super) const KAFKA: &str = "\
dataDir=/tmp/zookeeper
# the port at which the clients will connect
clientPort=2181
# no limit, this is not for production
maxClientCnxns=0
# no admin server, its port may be taken
admin.enableServer=false
# admin.serverPort=8080
";

/// What a 3.5 or 3.6 operator has after some years, with Windows line ends.
pub(super) const GROWN: &str = "\
tickTime = 2000\r\n\
dataDir: /srv/zk/data\r\n\
dataLogDir  /srv/zk/log\r\n\
clientPort=2181\r\n\
clientPortAddress=10.0.0.5\r\n\
maxClientCnxns=200\r\n\
minSessionTimeout=4000\r\n\
maxSessionTimeout=180000\r\n\
4lw.commands.whitelist=mntr, ruok,\\\r\n    conf,stat\r\n\
snapCount=50000\r\n\
preAllocSize=16384\r\n\
forceSync=no\r\n\
electionAlg=3\r\n\
metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\r\n\
metricsProvider.httpPort=7000\r\n\
metricsProvider.exportJvmInfo=true\r\n\
authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\r\n\
requireClientAuthScheme=sasl\r\n\
jaasLoginRenew=3600000\r\n\
confluent.support.metrics.enable=false\r\n";
