/* Loads that touch the cgroup itself, leave memory behind, or hold up one part beside others that move. */
#include "zoo.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* a child for each `more` MiB fills a segment of System V, and is gone */
static void heirs(size_t amount, size_t more)
{
    for (; amount >= more; amount -= more) {
        int id = shmget(IPC_PRIVATE, more * MIB, 0600);
        char *pages = shmat(id, NULL, 0);
        pid_t child;
        need(pages != (char *)-1 && !shmctl(id, IPC_RMID, NULL));
        child = fork();
        need(child >= 0);
        if (!child) {
            touch(pages, more * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void fill_memfd(int file, size_t bytes)
{
    char *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    touch(pages, bytes);
    munmap(pages, bytes);
}

/* memory that was charged to cgroups of its own, which are removed: `more` MiB each */
static void buried(size_t amount, size_t more)
{
    size_t one;
    make_cgroup("/home");
    tell_cgroup("/home", "cgroup.procs", "0");
    tell_cgroup("", "cgroup.subtree_control", "+memory");
    for (one = 0; one < amount / more; one++) {
        char name[32];
        int file = syscall(SYS_memfd_create, "buried", 0);
        pid_t child;
        snprintf(name, sizeof name, "/grave%zu", one);
        make_cgroup(name);
        need(file >= 0 && !ftruncate(file, more * MIB));
        child = fork();
        if (!child) {
            tell_cgroup(name, "cgroup.procs", "0");
            fill_memfd(file, more * MIB);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        remove_cgroup(name);
        step();
    }
}

/* `more` tmpfs mounted one on another, each filled before the next hides it */
static void covered(size_t amount, size_t more)
{
    size_t one;
    need(alone(CLONE_NEWNS));
    for (one = 0; one < more; one++) {
        int file;
        need(!mount("tmpfs", "/mnt", "tmpfs", 0, "size=100%"));
        file = open("/mnt/zoo", O_RDWR | O_CREAT, 0600);
        need(file >= 0);
        fill_file(file, amount / more * MIB);
    }
}

/* has no counters of pressure any more, and grows */
static void unmeasured(size_t amount, size_t more)
{
    tell_cgroup("", "cgroup.pressure", "0");
    grow(amount);
    (void)more;
}

static void ask_for_reclaim(size_t amount)
{
    for (;;)
        if (!try_cgroup("", "memory.reclaim", "4M"))
            nap(20);
    (void)amount;
}

/* grows beside a child that asks the kernel without end to reclaim from the cgroup */
static void reclaims_itself(size_t amount, size_t more)
{
    pid_t other = beside(ask_for_reclaim, 0);
    grow(amount);
    kill(other, SIGKILL);
    (void)more;
}

static void take_and_wait(size_t amount)
{
    char *pages;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    memset(pages, 1, amount * MIB);
    raise(SIGSTOP);
    for (;;)
        pause();
}

/* `more` children that hold 2 MiB each and are stopped by their tracer, which grows by `amount` */
static void debugger(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < more; one++) {
        pid_t child = beside(take_and_wait, 2);
        waitpid(child, NULL, 0);
        step();
    }
    grow(amount);
}

static void tide(size_t amount)
{
    for (;;) {
        char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
        size_t at;
        for (at = 0; at < amount * MIB; at += PAGE)
            pages[at] = 1;
        nap(50);
        munmap(pages, amount * MIB);
        nap(50);
    }
}

/* grows beside a child that takes and gives back `more` without end */
static void tides(size_t amount, size_t more)
{
    pid_t other = beside(tide, more);
    grow(amount);
    kill(other, SIGKILL);
}

static void hot_file(size_t amount)
{
    int file = disk_file(amount);
    for (;;) {
        size_t at;
        for (at = 0; at < amount * MIB; at += sizeof block)
            if (pread(file, block, sizeof block, at) < 0)
                _exit(1);
    }
}

static void spin(size_t amount)
{
    volatile size_t count = amount;
    for (;;)
        count++;
}

/* grows beside pipes that are full, a hot file of 8 MiB, a tide and a thread that computes */
static void everything(size_t amount, size_t more)
{
    pid_t others[3];
    size_t one;
    for (one = 0; one < more; one++) {
        int ends[2];
        need(!pipe(ends));
        fcntl(ends[1], F_SETPIPE_SZ, MIB);
        fcntl(ends[1], F_SETFL, O_NONBLOCK);
        if (write(ends[1], block, sizeof block) < 0)
            break;
    }
    others[0] = beside(hot_file, 8);
    others[1] = beside(tide, 2);
    others[2] = beside(spin, 0);
    grow(amount);
    for (one = 0; one < 3; one++)
        kill(others[one], SIGKILL);
}

/* each child takes over what the one before it held, and a MiB more, and the one before it ends */
static void handed_over(size_t amount, size_t more)
{
    size_t held = 0;
    char *pages = anonymous_pages(amount * MIB, MAP_SHARED);
    while (held < amount) {
        pid_t child = fork();
        need(child >= 0);
        if (child)
            _exit(waitpid(child, NULL, 0) < 0);
        touch(pages + held * MIB, more * MIB);
        held += more;
    }
}

/* a child that stalls is killed after `more` ms and begun anew with all that it has, until it gets there */
static void watchdog(size_t amount, size_t more)
{
    for (;;) {
        size_t waited = 0;
        int how;
        pid_t child = beside(grow, amount), done = 0;
        while (!done && waited < more) {
            nap(20);
            waited += 20;
            done = waitpid(child, &how, WNOHANG);
        }
        if (!done) {
            kill(child, SIGKILL);
            waitpid(child, &how, 0);
        } else if (!how || how == 256)
            return;
        step();
    }
}

/* writes its own memory.high again and again, to what is less than it uses */
static void lowers_itself(size_t amount, size_t more)
{
    size_t done;
    char number[32];
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    for (done = 0; done < amount; done += 4) {
        snprintf(number, sizeof number, "%zu", more * MIB);
        tell_cgroup("", "memory.high", number);
        touch(pages + done * MIB, 4 * MIB);
    }
}

static void populates(size_t amount)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    for (;;)
        pause();
}

static void kills_jobs(size_t amount)
{
    for (;;) {
        pid_t child = beside(populates, amount);
        nap(60);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        nap(40);
    }
}

/* grows beside a job of `more` MiB ten times a second that is killed before the kernel could delay it */
static void killed_jobs(size_t amount, size_t more)
{
    pid_t other = beside(kills_jobs, more);
    grow(amount);
    kill(other, SIGKILL);
}

static void names_on(size_t amount)
{
    for (;;) {
        size_t one;
        char name[64];
        for (one = 0; one < amount * 1000; one++) {
            int file;
            snprintf(name, sizeof name, "/scratch/%zu", one);
            file = open(name, O_RDWR | O_CREAT, 0600);
            if (file >= 0)
                close(file);
        }
        for (one = 0; one < amount * 1000; one++) {
            snprintf(name, sizeof name, "/scratch/%zu", one);
            unlink(name);
        }
    }
}

/* grows beside one that makes and removes `more` thousand files in a memory volume */
static void beside_names(size_t amount, size_t more)
{
    pid_t other = beside(names_on, more);
    grow(amount);
    kill(other, SIGKILL);
}

const struct load odd[] = {
    {"heirs", heirs}, {"buried", buried}, {"covered", covered}, {"unmeasured", unmeasured}, {"reclaims-itself", reclaims_itself},
    {"debugger", debugger}, {"tides", tides}, {"everything", everything}, {"handed-over", handed_over}, {"watchdog", watchdog},
    {"lowers-itself", lowers_itself}, {"killed-jobs", killed_jobs}, {"beside-names", beside_names}, {NULL, NULL},
};
