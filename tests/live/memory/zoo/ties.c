/* Loads whose parts wait for one another in one cgroup: for a judge of system calls, workers of the kernel, a
   hand in another's memory; and those who take it where it is not looked for. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* each system call of a child is answered by its parent, which takes a MiB for it: `amount` of them */
static void supervised(size_t amount, size_t more)
{
    struct sock_filter rules[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getppid},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_USER_NOTIF},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct seccomp_notif asked;
    struct seccomp_notif_resp answer;
    long judge;
    pid_t child;
    need(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    judge = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    need(judge >= 0);
    child = fork();
    need(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            syscall(SYS_getppid);
            step();
        }
    }
    for (; amount; amount--) {
        char *taken = anonymous_pages(MIB, MAP_PRIVATE);
        size_t at;
        memset(&asked, 0, sizeof asked);
        need(!ioctl(judge, SECCOMP_IOCTL_NOTIF_RECV, &asked));
        for (at = 0; at < MIB; at += PAGE)
            taken[at]++;
        memset(&answer, 0, sizeof answer);
        answer.id = asked.id;
        need(!ioctl(judge, SECCOMP_IOCTL_NOTIF_SEND, &answer));
    }
    kill(child, SIGKILL);
    (void)more;
}

static char *target;

/* waits while somebody else writes to `amount` of its memory */
static void posted(size_t amount, size_t more)
{
    pid_t child;
    size_t at;
    target = anonymous_pages(amount * MIB, MAP_PRIVATE);
    child = fork();
    need(child >= 0);
    if (!child)
        for (;;)
            pause();
    for (at = 0; at < amount * MIB; at += MIB / 4) {
        struct iovec from = {block, MIB / 4}, to = {target + at, MIB / 4};
        need(syscall(SYS_process_vm_writev, child, &from, 1, &to, 1, 0) == (ssize_t)MIB / 4);
        step();
    }
    kill(child, SIGKILL);
    (void)more;
}

struct ring {
    int file;
    volatile unsigned *tail, *done_head, *done_tail;
    unsigned mask, done_mask, *order;
    struct io_uring_sqe *asked;
    struct io_uring_cqe *done;
};

static int ring_of(struct ring *ring, unsigned entries)
{
    struct io_uring_params made;
    char *lists;
    memset(&made, 0, sizeof made);
    ring->file = syscall(425, entries, &made);
    if (ring->file < 0)
        return 0;
    lists = mmap(NULL, made.cq_off.cqes + made.cq_entries * sizeof *ring->done + made.sq_entries * 4, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_POPULATE, ring->file, IORING_OFF_SQ_RING);
    ring->asked = mmap(NULL, made.sq_entries * sizeof *ring->asked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->file,
                       IORING_OFF_SQES);
    need(lists != MAP_FAILED && ring->asked != MAP_FAILED);
    ring->tail = (unsigned *)(lists + made.sq_off.tail);
    ring->mask = *(unsigned *)(lists + made.sq_off.ring_mask);
    ring->order = (unsigned *)(lists + made.sq_off.array);
    ring->done_head = (unsigned *)(lists + made.cq_off.head);
    ring->done_tail = (unsigned *)(lists + made.cq_off.tail);
    ring->done_mask = *(unsigned *)(lists + made.cq_off.ring_mask);
    ring->done = (struct io_uring_cqe *)(lists + made.cq_off.cqes);
    return 1;
}

/* sixteen workers of the kernel write to a file of `more` without end, beside growth to `amount` */
static void ring_writes(size_t amount, size_t more)
{
    struct ring ring;
    int file = disk_file(0);
    size_t at = 0, grown = 0, under_way = 0;
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    if (!ring_of(&ring, 64))
        return;
    for (;;) {
        while (under_way < 16) {
            struct io_uring_sqe *one = &ring.asked[*ring.tail & ring.mask];
            memset(one, 0, sizeof *one);
            one->opcode = IORING_OP_WRITE;
            one->flags = IOSQE_ASYNC;
            one->fd = file;
            one->addr = (uintptr_t)block;
            one->len = MIB / 4;
            one->off = at = (at + MIB / 4) % (more * MIB);
            ring.order[*ring.tail & ring.mask] = *ring.tail & ring.mask;
            ++*ring.tail;
            need(syscall(426, ring.file, 1, 0, 0, NULL, 0) == 1);
            under_way++;
        }
        need(syscall(426, ring.file, 0, 1, 1 /* IORING_ENTER_GETEVENTS */, NULL, 0) >= 0 || errno == EINTR);
        for (; *ring.done_head != *ring.done_tail; ++*ring.done_head, under_way--)
            step();
        if (grown < amount * MIB) {
            touch(pages + grown, MIB);
            grown += MIB;
        }
    }
}

/* grows as a real-time process */
static void real_time(size_t amount, size_t more)
{
    struct sched_param first = {10};
    sched_setscheduler(0, SCHED_FIFO, &first);
    grow(amount);
    (void)more;
}

/* `amount` thousand links in a memory volume, each with a target that is kept apart */
static void links(size_t amount, size_t more)
{
    char name[64], to[900];
    size_t one;
    memset(to, 'z', sizeof to);
    to[sizeof to - 1] = 0;
    for (one = 0; one < amount * 1000; one++) {
        snprintf(name, sizeof name, "/scratch/%zu", one);
        need(!symlink(to, name));
        if (one % 100 == 0)
            step();
    }
    (void)more;
}

/* files of a MiB in a memory volume, removed while they are open */
static void deleted(size_t amount, size_t more)
{
    for (; amount; amount--) {
        int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_EXCL, 0600);
        need(file >= 0 && !unlink("/scratch/zoo"));
        fill_file(file, MIB);
    }
    (void)more;
}

static void over_and_over(size_t amount)
{
    for (;;) {
        pid_t child = fork();
        if (!child) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            tell_cgroup("/lower", "cgroup.procs", "0");
            memset(anonymous_pages(amount * MIB, MAP_PRIVATE), 1, amount * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* grows beside a cgroup of its own with a limit of `more` at which the kernel kills again and again */
static void nested_limit(size_t amount, size_t more)
{
    char number[32];
    pid_t other;
    make_cgroup("/upper");
    make_cgroup("/lower");
    tell_cgroup("/upper", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    snprintf(number, sizeof number, "%zu", more * MIB);
    tell_cgroup("/lower", "memory.max", number);
    other = beside(over_and_over, 2 * more);
    grow(amount);
    kill(other, SIGKILL);
}

/* sends `amount` of its memory without a copy to peers that do not read, gives the pages back, and takes `more` */
static void zero_copy(size_t amount, size_t more)
{
    int made = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(made >= 0 && !bind(made, (struct sockaddr *)&at, sizeof at) && !listen(made, 64) &&
         !getsockname(made, (struct sockaddr *)&at, &size));
    for (; amount; amount--) {
        int peer = socket(AF_INET, SOCK_STREAM, 0);
        char *pages = anonymous_pages(MIB, MAP_PRIVATE);
        memset(pages, 1, MIB);
        need(peer >= 0 && !connect(peer, (struct sockaddr *)&at, sizeof at));
        setsockopt(peer, SOL_SOCKET, 60 /* SO_ZEROCOPY */, &yes, sizeof yes);
        if (send(peer, pages, MIB, MSG_DONTWAIT | 0x4000000 /* MSG_ZEROCOPY */) < 0)
            need(errno == EAGAIN || errno == ENOBUFS);
        need(!munmap(pages, MIB) && accept(made, NULL, NULL) >= 0);
        step();
    }
    grow(more);
}

const struct load ties[] = {
    {"supervised", supervised}, {"posted", posted}, {"ring-writes", ring_writes}, {"real-time", real_time}, {"links", links},
    {"deleted", deleted}, {"nested-limit", nested_limit}, {"zero-copy", zero_copy}, {NULL, NULL},
};
