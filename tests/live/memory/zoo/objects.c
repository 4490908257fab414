/* Objects of the kernel by the thousand, and memory that it gives in ways of its own. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void then(size_t more)
{
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

/* the same pipes in `amount` hundred sets of epoll */
static void epolls(size_t amount, size_t more)
{
    int ends[64][2], one;
    size_t set;
    for (one = 0; one < 64; one++)
        need(!pipe(ends[one]));
    for (set = 0; set < amount * 100; set++) {
        int made = epoll_create1(0);
        if (made < 0 && errno == EMFILE)
            break;
        need(made >= 0);
        for (one = 0; one < 64; one++) {
            struct epoll_event event = {EPOLLIN, {0}};
            need(!epoll_ctl(made, EPOLL_CTL_ADD, ends[one][0], &event) || errno == ENOSPC);
        }
        if (set % 10 == 0)
            step();
    }
    then(more);
}

/* `amount` thousand eventfds */
static void eventfds(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount * 1000; one++) {
        if (eventfd(0, 0) < 0) {
            need(errno == EMFILE || errno == ENFILE);
            break;
        }
        if (one % 100 == 0)
            step();
    }
    then(more);
}

/* `amount` thousand timers */
static void timers(size_t amount, size_t more)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    size_t one;
    setrlimit(RLIMIT_SIGPENDING, &all);
    for (one = 0; one < amount * 1000; one++) {
        timer_t made;
        if (timer_create(CLOCK_MONOTONIC, NULL, &made)) {
            need(errno == EAGAIN);
            break;
        }
        if (one % 100 == 0)
            step();
    }
    then(more);
}

/* `amount` MiB of messages in queues that have no name any more */
static void queues(size_t amount, size_t more)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    struct mq_attr sizes = {.mq_maxmsg = 16, .mq_msgsize = 64 << 10};
    size_t one;
    need(!setrlimit(RLIMIT_MSGQUEUE, &all));
    for (one = 0; one < amount; one++) {
        char name[64];
        mqd_t made;
        int number;
        snprintf(name, sizeof name, "/zoo-%d-%zu", (int)getpid(), one);
        made = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &sizes);
        need(made >= 0 && !mq_unlink(name));
        for (number = 0; number < 16; number++)
            need(!mq_send(made, block, 64 << 10, 0));
        step();
    }
    then(more);
}

/* `amount` keys of 16 KiB that go with the process */
static void keys(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        char name[32];
        snprintf(name, sizeof name, "zoo-%zu", one);
        if (syscall(SYS_add_key, "user", name, block, 16000, KEY_SPEC_PROCESS_KEYRING) < 0) {
            need(errno == EDQUOT || errno == ENOSYS || errno == EPERM);
            break;
        }
        step();
    }
    then(more);
}

/* netlink sockets with messages that nobody reads */
static void netlinks(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int from = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK), to = socket(AF_NETLINK, SOCK_RAW, NETLINK_USERSOCK);
        int room = 2 * MIB;
        struct sockaddr_nl at = {.nl_family = AF_NETLINK};
        socklen_t size = sizeof at;
        need(from >= 0 && to >= 0 && !bind(to, (struct sockaddr *)&at, sizeof at));
        need(!getsockname(to, (struct sockaddr *)&at, &size));
        setsockopt(to, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
        while (sendto(from, block, 16 << 10, MSG_DONTWAIT, (struct sockaddr *)&at, sizeof at) > 0)
            ;
        step();
    }
    then(more);
}

/* sockets that only messages in each other hold, which the kernel has to find */
static void garbage(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int ends[2];
        char room[CMSG_SPACE(2 * sizeof(int))] = {0};
        struct iovec part = {block, 100000};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        need(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof ends);
        memcpy(CMSG_DATA(head), ends, sizeof ends);
        sendmsg(ends[0], &message, MSG_DONTWAIT);
        close(ends[0]);
        close(ends[1]);
        if (one % 10 == 0)
            step();
    }
    then(more);
}

/* rings of asynchronous reads, whose pages look like a file's */
static void aio_rings(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        unsigned long ring = 0;
        if (syscall(SYS_io_setup, 4000, &ring)) {
            need(errno == EAGAIN || errno == ENOSYS);
            break;
        }
        step();
    }
    then(more);
}

/* buffers for events of the processor's counters */
static void perf_rings(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        struct perf_event_attr wanted;
        long file;
        memset(&wanted, 0, sizeof wanted);
        wanted.type = PERF_TYPE_SOFTWARE;
        wanted.size = sizeof wanted;
        wanted.config = PERF_COUNT_SW_PAGE_FAULTS;
        wanted.exclude_kernel = 1;
        file = syscall(SYS_perf_event_open, &wanted, 0, -1, -1, 0);
        if (file < 0 || mmap(NULL, MIB + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED)
            break;
        step();
    }
    then(more);
}

/* signals that wait, each with a word */
static void pending(size_t amount, size_t more)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    sigset_t blocked;
    size_t one;
    setrlimit(RLIMIT_SIGPENDING, &all);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    need(!sigprocmask(SIG_BLOCK, &blocked, NULL));
    for (one = 0; one < amount * 1000; one++) {
        union sigval word = {0};
        if (sigqueue(getpid(), SIGRTMIN, word)) {
            need(errno == EAGAIN);
            break;
        }
        if (one % 100 == 0)
            step();
    }
    then(more);
}

const struct load objects[] = {
    {"epolls", epolls}, {"eventfds", eventfds}, {"timers", timers}, {"queues", queues}, {"keys", keys}, {"netlinks", netlinks},
    {"garbage", garbage}, {"aio-rings", aio_rings}, {"perf-rings", perf_rings}, {"pending", pending}, {NULL, NULL},
};
