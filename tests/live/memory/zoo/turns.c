/* Growth with pauses, by others, or under somebody's hands; collectors that copy; what leaves a dump. */
#include "zoo.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static void rest(unsigned milliseconds)
{
    for (; milliseconds >= 100; milliseconds -= 100) {
        step();
        nap(100);
    }
}

/* holds `amount`, then takes 3 MiB after each pause of 3 to 9 s, `more` times */
static void pauses(size_t amount, size_t more)
{
    size_t one;
    grow(amount);
    for (one = 0; one < more; one++) {
        rest(3000 + one % 4 * 2000);
        grow(3);
    }
}

/* holds `amount`, then takes a MiB each second, `more` times */
static void beats(size_t amount, size_t more)
{
    grow(amount);
    for (; more; more--) {
        rest(1000);
        grow(1);
    }
}

static void grow_and_end(size_t amount)
{
    grow(amount);
    _exit(0);
}

/* grows while its parent stops it for so many ms and lets it run for others, again and again */
static void in_turn(size_t amount, unsigned stopped, unsigned running)
{
    pid_t child = beside(grow_and_end, amount);
    while (waitpid(child, NULL, WNOHANG) == 0) {
        kill(child, SIGSTOP);
        nap(stopped);
        kill(child, SIGCONT);
        nap(running);
    }
}

static void stop_and_go(size_t amount, size_t more)
{
    in_turn(amount, 700, more);
}

static void mostly_stopped(size_t amount, size_t more)
{
    in_turn(amount, 1000, more);
}

static void *map_one(void *bytes)
{
    char *pages = anonymous_pages((size_t)bytes, MAP_PRIVATE);
    size_t at;
    for (at = 0; at < (size_t)bytes; at += PAGE)
        pages[at]++;
    step();
    return NULL;
}

/* `more` threads at once, each of which maps its share */
static void thread_maps(size_t amount, size_t more)
{
    pthread_t made[128];
    pthread_attr_t sizes;
    size_t one;
    need(more <= 128 && !pthread_attr_init(&sizes) && !pthread_attr_setstacksize(&sizes, 64 << 10));
    for (one = 0; one < more; one++)
        need(!pthread_create(&made[one], &sizes, map_one, (void *)(amount * MIB / more / PAGE * PAGE)));
    for (one = 0; one < more; one++)
        pthread_join(made[one], NULL);
}

/* copies a heap of `amount` to a new one each `more` ms, and drops the old one: a collector */
static void copying(size_t amount, size_t more)
{
    char *heap = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(heap, amount * MIB);
    for (;;) {
        char *next = anonymous_pages(amount * MIB, MAP_PRIVATE);
        size_t at;
        rest(more);
        for (at = 0; at < amount; at++) {
            memcpy(next + at * MIB, heap + at * MIB, MIB);
            step();
        }
        munmap(heap, amount * MIB);
        heap = next;
    }
}

/* children of `amount` that crash and leave a dump, without end; the parent waits and counts */
static void dumps(size_t amount, size_t more)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    char folder[64], name[96];
    setrlimit(RLIMIT_CORE, &all);
    snprintf(folder, sizeof folder, "/var/tmp/zoo-%d-d", (int)getpid());
    need(!mkdir(folder, 0700) && !chdir(folder));
    for (;;) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            grow(amount);
            abort();
        }
        while (waitpid(child, NULL, WNOHANG) == 0)
            rest(200);
        step();
        unlink("core");
        snprintf(name, sizeof name, "core.%d", (int)child);
        unlink(name);
    }
    (void)more;
}

struct place {
    volatile int pid, over;
    char *pages;
};

static struct place *shared_place(void)
{
    int file = open("/scratch/place", O_RDWR | O_CREAT, 0600);
    struct place *found;
    need(file >= 0 && !ftruncate(file, PAGE));
    found = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(found != MAP_FAILED);
    return found;
}

/* sleeps, and gets `amount` of memory by what another container writes into it */
static void written(size_t amount, size_t more)
{
    struct place *at = shared_place();
    at->pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    at->pid = getpid();
    while (!at->over)
        rest(100);
    (void)more;
}

/* writes it */
static void writes_there(size_t amount, size_t more)
{
    struct place *at = shared_place();
    size_t done;
    while (!at->pid)
        rest(100);
    for (done = 0; done < amount * 4; done++) {
        struct iovec from = {block, MIB / 4}, to = {at->pages + done * (MIB / 4), MIB / 4};
        need(process_vm_writev(at->pid, &from, 1, &to, 1, 0) == MIB / 4);
        step();
    }
    at->over = 1;
    (void)more;
}

/* `more` cgroups below its own, which count memory for themselves, in a namespace of its own, with a process
   each that takes its share and keeps it for 5 s */
static void manager(size_t amount, size_t more)
{
    size_t one;
    make_cgroup("/init.scope");
    tell_cgroup("/init.scope", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    unshare(CLONE_NEWCGROUP);
    for (one = 0; one < more; one++) {
        char name[64];
        pid_t child;
        snprintf(name, sizeof name, "/unit-%zu.service", one);
        make_cgroup(name);
        child = fork();
        need(child >= 0);
        if (!child) {
            tell_cgroup(name, "cgroup.procs", "0");
            grow(amount / more);
            nap(5000);
            _exit(0);
        }
    }
    while (wait(NULL) > 0)
        step();
}

/* goes from one cgroup below its own to another for each of `more` MiB that it takes beside `amount` */
static void wanders(size_t amount, size_t more)
{
    make_cgroup("/one");
    make_cgroup("/two");
    tell_cgroup("/one", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    grow(amount);
    for (; more; more--) {
        tell_cgroup(more % 2 ? "/two" : "/one", "cgroup.procs", "0");
        grow(1);
    }
}

/* writes past the page cache to a file of `more`, each write synced, without end, beside `amount` */
static void direct_writer(size_t amount, size_t more)
{
    char name[64], *from = anonymous_pages(MIB, MAP_PRIVATE);
    int file = disk_file(more), again;
    size_t at;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    again = open(name, O_WRONLY | O_DSYNC | 040000 /* O_DIRECT */);
    need(again >= 0);
    memset(from, 'z', MIB);
    grow(amount);
    for (at = 0;; at = (at + MIB / 4) % (more * MIB)) {
        need(pwrite(again, from, MIB / 4, at) == (ssize_t)MIB / 4);
        step();
    }
}

/* reads zeros into a buffer of `more`, writes them to a file and syncs that, without end, beside `amount`: dd */
static void blocks(size_t amount, size_t more)
{
    char *buffer = anonymous_pages(more * MIB, MAP_PRIVATE);
    int from = open("/dev/zero", O_RDONLY), to = disk_file(0), round;
    grow(amount);
    for (round = 0;; round = (round + 1) % 4) {
        need(read(from, buffer, more * MIB) == (ssize_t)(more * MIB));
        step();
        need(pwrite(to, buffer, more * MIB, round * more * MIB) == (ssize_t)(more * MIB));
        step();
        need(round || !fdatasync(to));
        step();
    }
}

static void spin(size_t unused)
{
    for (;;)
        ;
}

static void one_cpu(void)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    need(!sched_setaffinity(0, sizeof first, &first));
}

/* grows beside a real-time process that has the CPU for all but a twentieth of the time */
static void beside_fifo(size_t amount, size_t more)
{
    struct sched_param first = {10};
    pid_t other;
    one_cpu();
    other = beside(spin, 0);
    sched_setscheduler(other, SCHED_FIFO, &first);
    grow(amount);
    kill(other, SIGKILL);
    (void)more;
}

/* `more` processes that compute without end, and count */
static void spins(size_t amount, size_t more)
{
    for (; more > 1; more--)
        beside(spin, 0);
    for (;;) {
        uint64_t end = now() + 100000000;
        while (now() < end)
            ;
        step();
    }
    (void)amount;
}

static void *storm(void *unused)
{
    for (;;) {
        pid_t child = vfork();
        if (!child) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    return unused;
}

/* grows while `more` threads begin programs without end */
static void stormed(size_t amount, size_t more)
{
    pthread_t made;
    for (; more; more--)
        need(!pthread_create(&made, NULL, storm, NULL));
    grow(amount);
}

const struct load turns[] = {
    {"pauses", pauses}, {"beats", beats}, {"stop-and-go", stop_and_go}, {"mostly-stopped", mostly_stopped},
    {"thread-maps", thread_maps}, {"copying", copying}, {"dumps", dumps}, {"written", written},
    {"writes-there", writes_there}, {"manager", manager}, {"wanders", wanders}, {"direct-writer", direct_writer},
    {"blocks", blocks}, {"beside-fifo", beside_fifo}, {"spins", spins}, {"stormed", stormed}, {NULL, NULL},
};
