/* What runtimes, servers and builds do beside their growth. */
#include "zoo.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char *heap;
static size_t heap_bytes;
static volatile size_t filled;

static void *mark_on(void *from)
{
    size_t at = (size_t)from * MIB;
    volatile char *pages = heap;
    for (;; at += PAGE) {
        if (at >= filled)
            at = 0;
        pages[at] += pages[at + PAGE / 2];
    }
    return NULL;
}

/* `more` threads of a collector go through all pages of a heap while it grows to `amount` */
static void marked(size_t amount, size_t more)
{
    pthread_t made;
    heap = anonymous_pages(amount * MIB + PAGE, MAP_PRIVATE);
    for (; more; more--)
        need(!pthread_create(&made, NULL, mark_on, (void *)more));
    for (filled = PAGE; filled < amount * MIB; filled += PAGE) {
        heap[filled] = 1;
        if (filled % MIB == 0)
            step();
    }
}

static void *scavenge_on(void *unused)
{
    size_t at;
    for (at = 0;; at = (at + MIB) % heap_bytes) {
        madvise(heap + at, MIB, MADV_DONTNEED);
        nap(100);
    }
    return unused;
}

/* holds `amount` and works through spans of `more` that a thread gives back one by one: a scavenger */
static void scavenged(size_t amount, size_t more)
{
    pthread_t made;
    heap_bytes = more * MIB;
    heap = anonymous_pages(heap_bytes, MAP_PRIVATE);
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    need(!pthread_create(&made, NULL, scavenge_on, NULL));
    for (;;)
        touch(heap, heap_bytes);
}

/* a child writes its parent's `amount` to a file, `more` times, while the parent, whose steps count, writes to all of it */
static void snapshot(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    for (; more; more--) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            char name[64];
            int file;
            size_t at;
            snprintf(name, sizeof name, "/var/tmp/zoo-%d", (int)getpid());
            file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
            if (file < 0 || unlink(name))
                _exit(1);
            for (at = 0; at < amount; at++) {
                if (write(file, pages + at * MIB, MIB) != (ssize_t)MIB)
                    _exit(1);
                nap(20);
            }
            _exit(fsync(file));
        }
        touch(pages, amount * MIB);
        while (waitpid(child, NULL, WNOHANG) == 0) {
            step();
            nap(20);
        }
    }
}

/* `more` backends of 5 MiB each, which read a file of 100 MiB into `amount` that they share, then end */
static void backends(size_t amount, size_t more)
{
    int file = disk_file(100);
    char *buffers = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t one;
    need(buffers != MAP_FAILED);
    for (one = 0; one < more; one++) {
        pid_t child = fork();
        size_t at;
        need(child >= 0);
        if (child)
            continue;
        for (at = 0; at < 100; at++) {
            char *own = anonymous_pages(MIB / 20, MAP_PRIVATE);
            size_t page;
            for (page = 0; page < MIB / 20; page += PAGE)
                own[page]++;
            if (pread(file, buffers + (one * 7 + at) % amount * MIB, MIB, at * MIB) != (ssize_t)MIB)
                _exit(1);
            step();
        }
        _exit(0);
    }
    while (wait(NULL) > 0)
        step();
}

/* without end, `more` jobs at once of up to `amount`, each longer than the last, that write 2 MiB: make -j */
static void jobs(size_t amount, size_t more)
{
    size_t running = 0, begun;
    for (begun = 1;; begun++) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            size_t size = (amount * (1 + begun % more) / more) * MIB;
            char *pages = anonymous_pages(size, MAP_PRIVATE);
            int round;
            for (round = 0; round < 10; round++)
                touch(pages, size);
            close(disk_file(2));
            _exit(0);
        }
        if (++running < more)
            continue;
        need(wait(NULL) > 0);
        running--;
        step();
    }
}

/* holds `amount`, and answers requests of some ms of work, each of which loses `more` KiB */
static void leak(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    for (;;) {
        char *lost = anonymous_pages(more << 10, MAP_PRIVATE);
        size_t at;
        for (at = 0; at < more << 10; at += PAGE)
            lost[at]++;
        for (at = 0; at < 20000; at++)
            pages[at * 4099 % (amount * MIB)]++;
        step();
        nap(5);
    }
}

/* holds `amount` and begins programs, one after another without end: a script */
static void spawns(size_t amount, size_t more)
{
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (;;) {
        pid_t child = vfork();
        need(child >= 0);
        if (!child) {
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        waitpid(child, NULL, 0);
        step();
    }
    (void)more;
}

/* grows at the lowest priority beside `more` processes that compute */
static void idle_priority(size_t amount, size_t more)
{
    struct sched_param none = {0};
    pid_t others[16];
    size_t one;
    need(more <= 16);
    for (one = 0; one < more; one++) {
        others[one] = fork();
        need(others[one] >= 0);
        while (!others[one])
            ;
    }
    sched_setscheduler(0, 5 /* SCHED_IDLE */, &none);
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (one = 0; one < more; one++)
        kill(others[one], SIGKILL);
}

static size_t deep(size_t bytes)
{
    volatile char frame[16 << 10];
    frame[0] = frame[PAGE] = frame[2 * PAGE] = frame[3 * PAGE] = (char)bytes;
    if (bytes % MIB == 0)
        step();
    return (bytes < sizeof frame ? 0 : deep(bytes - sizeof frame)) + frame[PAGE];
}

/* a stack that grows to `amount` */
static void recursion(size_t amount, size_t more)
{
    struct rlimit room = {amount * MIB + 8 * MIB, RLIM_INFINITY};
    need(!setrlimit(RLIMIT_STACK, &room));
    deep(amount * MIB);
    (void)more;
}

static void *fill_stack(void *unused)
{
    char frame[900 << 10];
    size_t at;
    for (at = 0; at < sizeof frame; at += PAGE)
        frame[at] = 1;
    step();
    nap(30000);
    return unused ? frame : NULL;
}

/* as many threads, with stacks of which each uses a MiB */
static void stacks(size_t amount, size_t more)
{
    pthread_attr_t sizes;
    pthread_t made;
    size_t one;
    need(!pthread_attr_init(&sizes) && !pthread_attr_setstacksize(&sizes, 2 * MIB));
    for (one = 0; one < amount; one++) {
        need(!pthread_create(&made, &sizes, fill_stack, NULL));
        nap(10);
    }
    nap(more * 1000);
}

/* locks all it has and will have, and forks children that write to all of it, one by one */
static void locked_forks(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    need(!mlockall(MCL_CURRENT | MCL_FUTURE));
    touch(pages, amount * MIB);
    for (; more; more--) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            touch(pages, amount * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* small pages that become huge ones by and by */
static void collapsed(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t at;
    madvise(pages, amount * MIB, MADV_HUGEPAGE);
    for (at = 0; at < amount * MIB; at += MIB) {
        touch(pages + at, MIB);
        madvise(pages, at + MIB, 25 /* MADV_COLLAPSE */);
        step();
    }
    (void)more;
}

/* a parent that is stopped in vfork while its child grows */
static void borrowed(size_t amount, size_t more)
{
    pid_t child = vfork();
    need(child >= 0);
    if (!child) {
        touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
        _exit(0);
    }
    (void)more;
}

/* writes `amount` into a pipe that another container reads */
static void feeds(size_t amount, size_t more)
{
    int pipe, done;
    mkfifo("/scratch/pipe", 0600);
    pipe = open("/scratch/pipe", O_WRONLY);
    need(pipe >= 0);
    signal(SIGPIPE, SIG_IGN);
    for (done = 0; done < (int)amount; done++) {
        if (write(pipe, block, MIB) != (ssize_t)MIB)
            break;
        step();
    }
    (void)more;
}

/* keeps all that it reads from there */
static void fed(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t done = 0;
    int pipe;
    mkfifo("/scratch/pipe", 0600);
    pipe = open("/scratch/pipe", O_RDONLY);
    need(pipe >= 0);
    while (done < amount * MIB) {
        ssize_t size = read(pipe, pages + done, 64 << 10);
        if (size <= 0)
            break;
        done += size;
        step();
    }
    (void)more;
}

/* a cgroup below its own, whose process grows and which is killed as a whole after `more` ms */
static void killed_inside(size_t amount, size_t more)
{
    pid_t child;
    make_cgroup("/inner");
    child = fork();
    need(child >= 0);
    if (!child) {
        tell_cgroup("/inner", "cgroup.procs", "0");
        touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
        _exit(0);
    }
    nap(more);
    tell_cgroup("/inner", "cgroup.kill", "1");
    need(waitpid(child, NULL, 0) == child);
    step();
}

const struct load servers[] = {
    {"marked", marked}, {"scavenged", scavenged}, {"snapshot", snapshot}, {"backends", backends}, {"jobs", jobs}, {"leak", leak},
    {"spawns", spawns}, {"idle-priority", idle_priority}, {"recursion", recursion}, {"stacks", stacks}, {"locked-forks", locked_forks},
    {"collapsed", collapsed}, {"borrowed", borrowed}, {"feeds", feeds}, {"fed", fed}, {"killed-inside", killed_inside}, {NULL, NULL},
};
