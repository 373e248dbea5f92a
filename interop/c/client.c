/* ZooKeeper's C client (libzookeeper_mt) against the server whose address is the first argument.
 *
 * Each check is a function that returns when it is content and ends the program when it is not. Debian's library is
 * of release 3.8, an independent implementation of the protocol in every part that matters here. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define WAIT_SECONDS 15
#define PIPELINED 500

#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "FAILED  %s:%d: %s\n", __func__, __LINE__, #condition);            \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

#define CODE(expected, call)                                                                   \
    do {                                                                                       \
        int code_ = (call);                                                                    \
        if (code_ != (expected)) {                                                             \
            fprintf(stderr, "FAILED  %s:%d: %s: expected %d, got %d (%s)\n", __func__,         \
                    __LINE__, #call, (expected), code_, zerror(code_));                        \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

static const char *program;
static const char *address;

/* What watches and callbacks have told, under one lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connected;
static int events;
static int last_event_type;
static char last_event_path[256];
static int replies;
static int reply_faults;

static void wait_until(const int *value, int at_least)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&lock);
    while (*value < at_least) {
        if (pthread_cond_timedwait(&changed, &lock, &deadline) != 0) {
            fprintf(stderr, "FAILED  waited %d s in vain\n", WAIT_SECONDS);
            exit(1);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void on_session(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)path, (void)context;
    if (type != ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&lock);
    if (state == ZOO_CONNECTED_STATE)
        connected++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle, (void)state, (void)context;
    if (type == ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&lock);
    events++;
    last_event_type = type;
    snprintf(last_event_path, sizeof last_event_path, "%s", path);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void expect_event(int count, int type, const char *path)
{
    wait_until(&events, count);
    CHECK(events == count);
    CHECK(last_event_type == type);
    CHECK(strcmp(last_event_path, path) == 0);
}

static zhandle_t *open_session(const clientid_t *id)
{
    int before = connected;
    zhandle_t *handle = zookeeper_init(address, on_session, 10000, id, NULL, 0);
    CHECK(handle != NULL);
    wait_until(&connected, before + 1);
    return handle;
}

static void create(zhandle_t *handle, const char *path, const char *data, int mode)
{
    CODE(ZOK, zoo_create(handle, path, data, data ? (int)strlen(data) : -1, &ZOO_OPEN_ACL_UNSAFE,
                         mode, NULL, 0));
}

static void create_get_set_delete(zhandle_t *handle)
{
    char buffer[64];
    int length = sizeof buffer;
    struct Stat stat;
    create(handle, "/c", "one", ZOO_PERSISTENT);
    CODE(ZNODEEXISTS, zoo_create(handle, "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    CODE(ZNONODE, zoo_create(handle, "/c/x/y", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    CODE(ZOK, zoo_get(handle, "/c", 0, buffer, &length, &stat));
    CHECK(length == 3 && memcmp(buffer, "one", 3) == 0);
    CHECK(stat.version == 0 && stat.dataLength == 3 && stat.czxid == stat.mzxid);
    CODE(ZOK, zoo_set2(handle, "/c", "three", 5, 0, &stat));
    CHECK(stat.version == 1 && stat.dataLength == 5 && stat.mzxid > stat.czxid);
    CODE(ZBADVERSION, zoo_set(handle, "/c", "", 0, 0));
    create(handle, "/c/gone", "", ZOO_PERSISTENT);
    CODE(ZNOTEMPTY, zoo_delete(handle, "/c", -1));
    CODE(ZBADVERSION, zoo_delete(handle, "/c/gone", 3));
    CODE(ZOK, zoo_delete(handle, "/c/gone", 0));
    CODE(ZNONODE, zoo_exists(handle, "/c/gone", 0, &stat));
    CODE(ZNONODE, zoo_get(handle, "/c/gone", 0, buffer, &length, &stat));
}

static void absent_and_empty_data(zhandle_t *handle)
{
    char buffer[8];
    int length = sizeof buffer;
    struct Stat stat;
    create(handle, "/c/absent", NULL, ZOO_PERSISTENT);
    CODE(ZOK, zoo_get(handle, "/c/absent", 0, buffer, &length, &stat));
    CHECK(length == -1 && stat.dataLength == 0);
    create(handle, "/c/empty", "", ZOO_PERSISTENT);
    length = sizeof buffer;
    CODE(ZOK, zoo_get(handle, "/c/empty", 0, buffer, &length, &stat));
    CHECK(length == 0 && stat.dataLength == 0);
}

static void create_modes(zhandle_t *handle)
{
    char path[64];
    struct Stat stat;
    create(handle, "/c/modes", "", ZOO_PERSISTENT);
    CODE(ZOK, zoo_create2(handle, "/c/modes/s-", "x", 1, &ZOO_OPEN_ACL_UNSAFE,
                          ZOO_PERSISTENT_SEQUENTIAL, path, sizeof path, &stat));
    CHECK(strcmp(path, "/c/modes/s-0000000000") == 0 && stat.dataLength == 1);
    CODE(ZOK, zoo_create(handle, "/c/modes/e-", "x", 1, &ZOO_OPEN_ACL_UNSAFE,
                         ZOO_EPHEMERAL_SEQUENTIAL, path, sizeof path));
    CHECK(strcmp(path, "/c/modes/e-0000000001") == 0);
    CODE(ZOK, zoo_exists(handle, path, 0, &stat));
    CHECK(stat.ephemeralOwner == zoo_client_id(handle)->client_id);
    CODE(ZNOCHILDRENFOREPHEMERALS,
         zoo_create(handle, "/c/modes/e-0000000001/x", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    CODE(ZOK, zoo_create(handle, "/c/modes/box", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0));
    CODE(ZOK, zoo_create_ttl(handle, "/c/modes/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                             ZOO_PERSISTENT_WITH_TTL, 60000, NULL, 0));
    CODE(ZOK, zoo_exists(handle, "/c/modes/ttl", 0, &stat));
    CHECK(stat.ephemeralOwner == 0);
}

static void children(zhandle_t *handle)
{
    struct String_vector names;
    struct Stat stat;
    create(handle, "/c/parent", "", ZOO_PERSISTENT);
    create(handle, "/c/parent/a", "", ZOO_PERSISTENT);
    create(handle, "/c/parent/b", "", ZOO_PERSISTENT);
    CODE(ZOK, zoo_get_children(handle, "/c/parent", 0, &names));
    CHECK(names.count == 2);
    deallocate_String_vector(&names);
    CODE(ZOK, zoo_delete(handle, "/c/parent/a", -1));
    CODE(ZOK, zoo_get_children2(handle, "/c/parent", 0, &names, &stat));
    CHECK(names.count == 1 && strcmp(names.data[0], "b") == 0);
    CHECK(stat.numChildren == 1 && stat.cversion == 3);
    deallocate_String_vector(&names);
    CODE(ZNONODE, zoo_get_children(handle, "/c/nowhere", 0, &names));
}

static void multi(zhandle_t *handle)
{
    char made[64];
    struct Stat stat;
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    zoo_create_op_init(&ops[0], "/c/multi", "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made);
    zoo_set_op_init(&ops[1], "/c/multi", "22", 2, 0, &stat);
    zoo_check_op_init(&ops[2], "/c/multi", 1);
    zoo_delete_op_init(&ops[3], "/c/multi", 1);
    CODE(ZOK, zoo_multi(handle, 3, ops, results));
    CHECK(strcmp(made, "/c/multi") == 0 && stat.version == 1 && stat.dataLength == 2);
    CODE(ZNODEEXISTS, zoo_multi(handle, 4, ops, results));
    CHECK(results[0].err == ZNODEEXISTS && results[1].err == ZRUNTIMEINCONSISTENCY);
    zoo_op_t last[2];
    zoo_create_op_init(&last[0], "/c/never", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_delete_op_init(&last[1], "/c/multi", 7);
    CODE(ZBADVERSION, zoo_multi(handle, 2, last, results));
    CHECK(results[0].err == ZOK && results[1].err == ZBADVERSION);
    CODE(ZNONODE, zoo_exists(handle, "/c/never", 0, NULL));
}

static void on_auth(int code, const void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    replies++;
    reply_faults += code != ZOK;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void acl_and_auth(zhandle_t *handle)
{
    struct ACL_vector acl;
    struct Stat stat;
    zhandle_t *stranger = open_session(NULL);
    replies = reply_faults = 0;
    CODE(ZOK, zoo_add_auth(handle, "digest", "ann:pw", 6, on_auth, NULL));
    wait_until(&replies, 1);
    CHECK(reply_faults == 0);
    CODE(ZOK, zoo_create(handle, "/c/secret", "s", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    CODE(ZNOAUTH, zoo_set(stranger, "/c/secret", "", 0, -1));
    CODE(ZOK, zoo_get_acl(handle, "/c/secret", &acl, &stat));
    CHECK(acl.count == 1 && strcmp(acl.data[0].id.scheme, "digest") == 0 && stat.aversion == 0);
    deallocate_ACL_vector(&acl);
    CODE(ZBADVERSION, zoo_set_acl(handle, "/c/secret", 5, &ZOO_OPEN_ACL_UNSAFE));
    CODE(ZOK, zoo_set_acl(handle, "/c/secret", 0, &ZOO_READ_ACL_UNSAFE));
    CODE(ZOK, zoo_exists(stranger, "/c/secret", 0, &stat));
    CHECK(stat.aversion == 1);
    CODE(ZNOAUTH, zoo_set(stranger, "/c/secret", "", 0, -1));
    CODE(ZINVALIDACL, zoo_create(stranger, "/c/nobody", "", 0, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    CODE(ZOK, zookeeper_close(stranger));
}

static void watches(zhandle_t *handle)
{
    struct String_vector names;
    struct Stat stat;
    char buffer[8];
    int length = sizeof buffer;
    events = 0;
    CODE(ZNONODE, zoo_wexists(handle, "/c/w", on_event, NULL, &stat));
    create(handle, "/c/w", "", ZOO_PERSISTENT);
    expect_event(1, ZOO_CREATED_EVENT, "/c/w");
    CODE(ZOK, zoo_wget(handle, "/c/w", on_event, NULL, buffer, &length, &stat));
    CODE(ZOK, zoo_set(handle, "/c/w", "1", 1, -1));
    expect_event(2, ZOO_CHANGED_EVENT, "/c/w");
    CODE(ZOK, zoo_wget_children(handle, "/c/w", on_event, NULL, &names));
    deallocate_String_vector(&names);
    create(handle, "/c/w/x", "", ZOO_PERSISTENT);
    expect_event(3, ZOO_CHILD_EVENT, "/c/w");
    CODE(ZOK, zoo_wexists(handle, "/c/w/x", on_event, NULL, &stat));
    CODE(ZOK, zoo_delete(handle, "/c/w/x", -1));
    expect_event(4, ZOO_DELETED_EVENT, "/c/w/x");
    CODE(ZOK, zoo_wexists(handle, "/c/w", on_event, NULL, &stat));
    CODE(ZOK, zoo_remove_watches(handle, "/c/w", ZWATCHTYPE_DATA, on_event, NULL, 0));
    CODE(ZOK, zoo_set(handle, "/c/w", "2", 1, -1));
    CODE(ZOK, zoo_exists(handle, "/c/w", 0, &stat));
    CHECK(events == 4);
}

static void on_set(int code, const struct Stat *stat, const void *context)
{
    int expected = (int)(long)context;
    pthread_mutex_lock(&lock);
    if (code != ZOK || stat->version != expected + 1 || replies != expected)
        reply_faults++;
    replies++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void pipelining(zhandle_t *handle)
{
    struct Stat stat;
    create(handle, "/c/pipe", "", ZOO_PERSISTENT);
    replies = reply_faults = 0;
    for (long number = 0; number < PIPELINED; number++)
        CODE(ZOK, zoo_aset(handle, "/c/pipe", "x", 1, -1, on_set, (const void *)number));
    /* A read behind the writes of its own session sees them all. */
    CODE(ZOK, zoo_exists(handle, "/c/pipe", 0, &stat));
    CHECK(stat.version == PIPELINED);
    wait_until(&replies, PIPELINED);
    CHECK(reply_faults == 0);
}

static void on_sync(int code, const char *path, const void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    reply_faults += code != ZOK || strcmp(path, "/c") != 0;
    replies++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void sync_call(zhandle_t *handle)
{
    replies = reply_faults = 0;
    CODE(ZOK, zoo_async(handle, "/c", on_sync, NULL));
    wait_until(&replies, 1);
    CHECK(reply_faults == 0);
}

/* The other half of `reattach`, in a process of its own: opens a session, tells its id and password, and is gone without
 * closing it. (Within one process the library of the first handle would at once take its session back.) */
static int open_and_leave(void)
{
    zhandle_t *handle = open_session(NULL);
    create(handle, "/c/mine", "", ZOO_EPHEMERAL);
    const clientid_t *id = zoo_client_id(handle);
    printf("%lld ", (long long)id->client_id);
    for (size_t at = 0; at < sizeof id->passwd; at++)
        printf("%02x", (unsigned char)id->passwd[at]);
    fflush(stdout);
    _exit(0);
}

/* A session is taken over with its id and password; its ephemeral nodes stay until it closes. */
static void reattach(zhandle_t *handle)
{
    char command[512];
    char password[64];
    long long number;
    clientid_t id;
    struct Stat stat;
    snprintf(command, sizeof command, "'%s' '%s' open-and-leave", program, address);
    FILE *other = popen(command, "r");
    CHECK(other != NULL);
    CHECK(fscanf(other, "%lld %63s", &number, password) == 2);
    CHECK(pclose(other) == 0);
    CHECK(strlen(password) == 2 * sizeof id.passwd);
    id.client_id = number;
    for (size_t at = 0; at < sizeof id.passwd; at++) {
        unsigned byte;
        CHECK(sscanf(password + 2 * at, "%2x", &byte) == 1);
        id.passwd[at] = (char)byte;
    }
    zhandle_t *second = open_session(&id);
    CHECK(zoo_client_id(second)->client_id == number);
    CODE(ZOK, zoo_exists(second, "/c/mine", 0, &stat));
    CHECK(stat.ephemeralOwner == number);
    CODE(ZOK, zookeeper_close(second));
    CODE(ZNONODE, zoo_exists(handle, "/c/mine", 0, &stat));
}

/* A password that does not fit its session must be told as an expired session. */
static void wrong_password(zhandle_t *handle)
{
    clientid_t id = *zoo_client_id(handle);
    memset(id.passwd, 7, sizeof id.passwd);
    zhandle_t *thief = zookeeper_init(address, NULL, 10000, &id, NULL, 0);
    CHECK(thief != NULL);
    for (int tries = 0; zoo_state(thief) != ZOO_EXPIRED_SESSION_STATE; tries++) {
        struct timespec pause = {0, 10 * 1000 * 1000};
        CHECK(tries < WAIT_SECONDS * 100);
        nanosleep(&pause, NULL);
    }
    zookeeper_close(thief);
    /* The attempt cost the session its connection; the library opens another by itself. */
    int code;
    do {
        code = zoo_exists(handle, "/c", 0, NULL);
    } while (code == ZCONNECTIONLOSS);
    CODE(ZOK, code);
}

static void large_data(zhandle_t *handle)
{
    static char data[900 * 1024];
    static char back[sizeof data];
    int length = sizeof back;
    struct Stat stat;
    memset(data, 'd', sizeof data);
    create(handle, "/c/large", "", ZOO_PERSISTENT);
    CODE(ZOK, zoo_set(handle, "/c/large", data, sizeof data, -1));
    CODE(ZOK, zoo_get(handle, "/c/large", 0, back, &length, &stat));
    CHECK(length == (int)sizeof data && memcmp(data, back, sizeof data) == 0);
}

#define RUN(check)                                                                             \
    do {                                                                                       \
        check(handle);                                                                         \
        printf("ok      %s\n", #check);                                                        \
    } while (0)

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s HOST:PORT\n", arguments[0]);
        return 2;
    }
    program = arguments[0];
    address = arguments[1];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    if (count == 3 && strcmp(arguments[2], "open-and-leave") == 0)
        return open_and_leave();
    zhandle_t *handle = open_session(NULL);
    RUN(create_get_set_delete);
    RUN(absent_and_empty_data);
    RUN(create_modes);
    RUN(children);
    RUN(multi);
    RUN(acl_and_auth);
    RUN(watches);
    RUN(pipelining);
    RUN(sync_call);
    RUN(reattach);
    RUN(wrong_password);
    RUN(large_data);
    CODE(ZOK, zookeeper_close(handle));
    return 0;
}
