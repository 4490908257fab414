/* What the kernel keeps by the table: of descriptors, groups, messages, filters, mounts, events. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* As many children as `one` makes something for, all alive while the parent takes `more`. */
static void crowd(size_t count, void (*one)(size_t amount), size_t amount, size_t more)
{
    for (; count; count--) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            one(amount);
            nap(600000);
        }
        nap(5);
        step();
    }
    grow(more);
}

static void widen(size_t unused)
{
    struct rlimit all;
    if (!getrlimit(RLIMIT_NOFILE, &all) && all.rlim_cur > 3)
        dup2(0, (int)(all.rlim_cur > 1 << 20 ? 1 << 20 : all.rlim_cur) - 1);
    (void)unused;
}

/* `amount` processes whose tables of descriptors are as long as may be */
static void descriptor_tables(size_t amount, size_t more)
{
    crowd(amount, widen, 0, more);
}

static void join(size_t unused)
{
    static gid_t all[65536];
    size_t one;
    for (one = 0; one < 65536; one++)
        all[one] = one + 1;
    setgroups(65536, all);
    (void)unused;
}

/* `amount` processes that are in 65,536 groups each */
static void many_groups(size_t amount, size_t more)
{
    crowd(amount, join, 0, more);
}

static void filter(size_t count)
{
    static struct sock_filter rules[4000];
    struct sock_fprog program = {4000, rules};
    size_t one;
    for (one = 0; one < 4000; one++) {
        rules[one].code = BPF_RET | BPF_K;
        rules[one].k = SECCOMP_RET_ALLOW;
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (; count; count--)
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

/* `amount` processes with six filters of 4,000 rules each */
static void filters(size_t amount, size_t more)
{
    crowd(amount, filter, 6, more);
}

/* `amount` MiB of messages of System V that nobody takes */
static void messages(size_t amount, size_t more)
{
    size_t one;
    need(alone(CLONE_NEWIPC));
    for (one = 0; one < amount * 64; one++) {
        static struct {
            long type;
            char text[8000];
        } message = {1, ""};
        int queue = msgget(IPC_PRIVATE, 0600);
        if (queue < 0 && errno == ENOSPC)
            break;
        need(queue >= 0 && !msgsnd(queue, &message, 8000, 0) && !msgsnd(queue, &message, 8000, 0));
        if (one % 64 == 0)
            step();
    }
    grow(more);
}

/* `amount` sets of 16,000 semaphores, of a MiB each */
static void semaphores(size_t amount, size_t more)
{
    size_t one;
    need(alone(CLONE_NEWIPC));
    for (one = 0; one < amount; one++) {
        if (semget(IPC_PRIVATE, 16000, 0600) < 0) {
            need(errno == ENOSPC || errno == ENOMEM);
            break;
        }
        step();
    }
    grow(more);
}

/* `amount` thousand mounts of one folder */
static void mounts(size_t amount, size_t more)
{
    size_t one;
    need(alone(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    for (one = 0; one < amount * 1000; one++) {
        if (mount("/var/tmp", "/var/tmp", NULL, MS_BIND, NULL)) {
            need(errno == ENOSPC || errno == ENOMEM);
            break;
        }
        if (one % 50 == 0)
            step();
    }
    grow(more);
}

/* `amount` namespaces of the network */
static void networks(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int made = (one ? unshare(CLONE_NEWNET) : !alone(CLONE_NEWNET)) ? -1 : open("/proc/self/ns/net", O_RDONLY);
        if (made < 0)
            break;
        step();
    }
    grow(more);
}

/* `amount` terminals, each with words that nobody reads */
static void terminals(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int made = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (made < 0)
            break;
        (void)!grantpt(made);
        (void)!unlockpt(made);
        (void)!write(made, block, 3000);
        step();
    }
    grow(more);
}

/* rings for packets of 4 MiB each */
static void packet_rings(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one += 4) {
        struct tpacket_req wanted = {64 << 10, 64, 2048, 2048};
        int made = socket(AF_PACKET, SOCK_RAW, 0);
        if (made < 0 || setsockopt(made, SOL_PACKET, PACKET_RX_RING, &wanted, sizeof wanted))
            break;
        step();
    }
    grow(more);
}

/* `amount` MiB of datagrams that nobody takes */
static void datagrams(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0), room = 2 * MIB, sent;
        struct sockaddr_in at = {.sin_family = AF_INET};
        socklen_t size = sizeof at;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (from < 0 || to < 0)
            break;
        setsockopt(to, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
        need(!bind(to, (struct sockaddr *)&at, sizeof at) && !getsockname(to, (struct sockaddr *)&at, &size));
        for (sent = 0; sent < 60; sent++)
            if (sendto(from, block, 16 << 10, MSG_DONTWAIT, (struct sockaddr *)&at, sizeof at) < 0)
                break;
        step();
    }
    grow(more);
}

/* events of `amount` instances of inotify, which nobody reads */
static void events(size_t amount, size_t more)
{
    char folder[64], name[300];
    size_t one;
    snprintf(folder, sizeof folder, "/var/tmp/zoo-%d-d", (int)getpid());
    need(!mkdir(folder, 0700));
    for (one = 0; one < amount; one++) {
        int all = inotify_init();
        if (all < 0)
            break;
        need(inotify_add_watch(all, folder, IN_CREATE | IN_DELETE) >= 0);
    }
    memset(name, 'z', sizeof name);
    memcpy(name, folder, strlen(folder));
    name[strlen(folder)] = '/';
    name[strlen(folder) + 200] = 0;
    for (one = 0; one < 1500; one++) {
        int file = open(name, O_WRONLY | O_CREAT, 0600);
        need(file >= 0 && !close(file) && !unlink(name));
        if (one % 50 == 0)
            step();
    }
    grow(more);
    rmdir(folder);
}

const struct load kept[] = {
    {"descriptor-tables", descriptor_tables}, {"many-groups", many_groups}, {"filters", filters}, {"messages", messages},
    {"semaphores", semaphores}, {"mounts", mounts}, {"networks", networks}, {"terminals", terminals},
    {"packet-rings", packet_rings}, {"datagrams", datagrams}, {"events", events}, {NULL, NULL},
};
