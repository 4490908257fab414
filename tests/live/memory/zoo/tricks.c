/* What hides memory from whoever counts it, takes much in one call, or holds up others meanwhile. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static void forever(void)
{
    for (;;) {
        step();
        nap(200);
    }
}

static int holes(size_t mib)
{
    int file = disk_file(0);
    need(!ftruncate(file, mib * MIB));
    return file;
}

/* locked pages of a file that nobody wrote, taken within `more` seconds and kept */
static void locked_file_hog(size_t amount, size_t more)
{
    char *pages = mmap(NULL, amount * MIB, PROT_READ, MAP_SHARED, holes(amount), 0);
    size_t done;
    need(pages != MAP_FAILED);
    for (done = 0; done < amount; done++) {
        need(!mlock(pages + done * MIB, MIB));
        step();
        nap(more * 1000 / amount);
    }
    forever();
}

/* the same pages in pipes that nobody reads */
static void spliced_hog(size_t amount, size_t more)
{
    int file = holes(amount);
    loff_t from = 0;
    while (from < (loff_t)(amount * MIB)) {
        int ends[2];
        need(!pipe2(ends, O_NONBLOCK) && fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) > 0);
        while (from < (loff_t)(amount * MIB) && splice(file, &from, ends[1], NULL, MIB, SPLICE_F_NONBLOCK) > 0)
            ;
        step();
        nap(more * 1000 / amount);
    }
    forever();
}

/* takes it at once, holds it for `more` ms, lets it go, again and again: gone when somebody looks */
static void fleeting_hog(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    for (;;) {
        size_t at;
        touch(pages, amount * MIB);
        for (at = 0; at < more; at += 100) {
            step();
            nap(100);
        }
        need(!madvise(pages, amount * MIB, MADV_DONTNEED));
        step();
        nap(700);
    }
}

/* one call that makes the kernel take all of it in a memory volume */
static void fallocated(size_t amount, size_t more)
{
    int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0 && !posix_fallocate(file, 0, amount * MIB));
    step();
    (void)more;
}

/* the same of anonymous memory */
static void at_once(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    if (madvise(pages, amount * MIB, MADV_POPULATE_WRITE))
        need(errno == EINVAL);
    step();
    (void)more;
}

/* and by one call that reads into it */
static void zeroed(size_t amount, size_t more)
{
    int file = open("/dev/zero", O_RDONLY);
    need(file >= 0 && read(file, anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB) == (ssize_t)(amount * MIB));
    step();
    (void)more;
}

static volatile int filled;

static void *fill(void *bytes)
{
    char *pages = anonymous_pages((size_t)bytes, MAP_PRIVATE);
    madvise(pages, (size_t)bytes, MADV_POPULATE_WRITE);
    filled = 1;
    return NULL;
}

/* maps and unmaps a page, which are the steps, while another thread has the address space to itself for one call */
static void locked_out(size_t amount, size_t more)
{
    pthread_t made;
    need(!pthread_create(&made, NULL, fill, (void *)(amount * MIB)));
    while (!filled) {
        char *page = anonymous_pages(PAGE, MAP_PRIVATE);
        need(!munmap(page, PAGE));
        step();
        nap(20);
    }
    pthread_join(made, NULL);
    (void)more;
}

static char *advised_pages;
static size_t advised_bytes;

static void advise_on(size_t pid)
{
    int other = syscall(434 /* pidfd_open */, pid, 0);
    size_t at;
    for (at = 0;; at = (at + MIB) % advised_bytes) {
        struct iovec part = {advised_pages + at, MIB};
        syscall(440 /* process_madvise */, other, &part, 1, at / MIB % 2 ? MADV_COLD : MADV_PAGEOUT, 0);
        nap(2);
    }
}

/* grows while another process tells the kernel without end that nobody needs these pages */
static void advised(size_t amount, size_t more)
{
    pid_t child;
    advised_bytes = amount * MIB;
    advised_pages = anonymous_pages(advised_bytes, MAP_PRIVATE);
    child = beside(advise_on, getpid());
    touch(advised_pages, advised_bytes);
    kill(child, SIGKILL);
    (void)more;
}

static void refresh_on(size_t amount)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t at;
    for (;;) {
        madvise(pages, amount * MIB, MADV_FREE);
        for (at = 0; at < amount * MIB; at += PAGE)
            pages[at]++;
    }
}

/* grows beside `more` that are given back, and taken again at once, without end */
static void refreshed(size_t amount, size_t more)
{
    pid_t child = beside(refresh_on, more);
    nap(500);
    grow(amount - more);
    kill(child, SIGKILL);
}

static void *grow_thread(void *amount)
{
    grow((size_t)amount);
    _exit(0);
    return NULL;
}

/* a process whose first thread has ended, and the other one grows */
static void leaderless(size_t amount, size_t more)
{
    pid_t child = fork();
    pthread_t made;
    need(child >= 0);
    if (!child) {
        need(!pthread_create(&made, NULL, grow_thread, (void *)amount));
        syscall(SYS_exit, 0);
    }
    waitpid(child, NULL, 0);
    (void)more;
}

/* each call of one that grows is stopped and let go by a tracer */
static void traced(size_t amount, size_t more)
{
    pid_t child = fork();
    int state = 0;
    need(child >= 0);
    if (!child) {
        size_t done;
        need(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
        raise(SIGSTOP);
        for (done = 0; done < amount * 4; done++) {
            char *pages = anonymous_pages(MIB / 4, MAP_PRIVATE);
            size_t at;
            for (at = 0; at < MIB / 4; at += PAGE)
                pages[at]++;
            if (done % 4 == 3)
                step();
        }
        _exit(0);
    }
    while (waitpid(child, &state, 0) == child && WIFSTOPPED(state))
        if (ptrace(PTRACE_SYSCALL, child, NULL, NULL))
            break;
    (void)more;
}

static void keep(size_t amount)
{
    tell_cgroup("/inner", "cgroup.procs", "0");
    grow(amount);
    nap(600000);
}

/* grows beside `more` of a process that it froze, in a cgroup below its own */
static void beside_frozen(size_t amount, size_t more)
{
    pid_t child;
    make_cgroup("/inner");
    child = beside(keep, more);
    nap(2000);
    tell_cgroup("/inner", "cgroup.freeze", "1");
    grow(amount);
    kill(child, SIGKILL);
}

/* grows beside page cache of `more` that it protects from reclaim in a cgroup below its own */
static void beside_protected(size_t amount, size_t more)
{
    char least[32];
    make_cgroup("/kept");
    make_cgroup("/rest");
    tell_cgroup("/rest", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    snprintf(least, sizeof least, "%zu", more * MIB);
    tell_cgroup("/kept", "memory.min", least);
    tell_cgroup("/kept", "cgroup.procs", "0");
    disk_file(more);
    tell_cgroup("/rest", "cgroup.procs", "0");
    grow(amount);
}

static void part(size_t kib)
{
    char *pages = anonymous_pages(kib << 10, MAP_PRIVATE);
    size_t at, round;
    for (round = 0; round < 20; round++) {
        for (at = 0; at < kib << 10; at += PAGE)
            pages[at]++;
        step();
        nap(50);
    }
}

/* `amount` processes at once of `more` KiB each, none of which is large */
static void crumbs(size_t amount, size_t more)
{
    children(amount, part, more);
}

/* holds `amount`, and takes 16 KiB each 20 ms until it has `more` beside it */
static void drip(size_t amount, size_t more)
{
    char *pages = anonymous_pages(more * MIB, MAP_PRIVATE);
    size_t at;
    grow(amount);
    for (at = 0; at < more * MIB; at += PAGE) {
        pages[at]++;
        if (at % (16 << 10) == 0)
            nap(20);
        if (at % (MIB / 4) == 0)
            step();
    }
}

/* writes through a loop device to a file of `amount`, without end, beside `more` that it holds */
static void looped(size_t amount, size_t more)
{
    char name[32];
    struct loop_info64 settings;
    int control, device, number, file = disk_file(amount);
    size_t at;
    (void)!system("modprobe loop 2>/dev/null");
    control = open("/dev/loop-control", O_RDWR);
    need(control >= 0);
    do { /* somebody else may have been faster */
        number = ioctl(control, LOOP_CTL_GET_FREE);
        snprintf(name, sizeof name, "/dev/loop%d", number);
        device = open(name, O_RDWR);
        need(device >= 0);
    } while (ioctl(device, LOOP_SET_FD, file) && errno == EBUSY && !close(device));
    memset(&settings, 0, sizeof settings);
    settings.lo_flags = LO_FLAGS_AUTOCLEAR;
    need(!ioctl(device, LOOP_SET_STATUS64, &settings));
    grow(more);
    for (at = 0;; at = (at + MIB) % (amount * MIB)) {
        need(pwrite(device, block, MIB, at) == (ssize_t)MIB);
        step();
    }
}

/* grows, and may not be killed for it */
static void spared(size_t amount, size_t more)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY);
    need(file >= 0 && write(file, "-1000", 5) == 5);
    grow(amount);
    (void)more;
}

const struct load tricks[] = {
    {"locked-file-hog", locked_file_hog}, {"spliced-hog", spliced_hog},
    {"fleeting-hog", fleeting_hog}, {"fallocated", fallocated}, {"at-once", at_once}, {"zeroed", zeroed}, {"locked-out", locked_out},
    {"advised", advised}, {"refreshed", refreshed}, {"leaderless", leaderless}, {"traced", traced}, {"beside-frozen", beside_frozen},
    {"beside-protected", beside_protected}, {"crumbs", crumbs}, {"drip", drip}, {"looped", looped},
    {"spared", spared}, {NULL, NULL},
};
