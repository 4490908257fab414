/* One process grows beside others of its cgroup that do something else, and what works by itself. */
#include "zoo.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHERS 16

/* A file of holes, so long that nobody reads a page of it twice. */
static int holes(void)
{
    char name[64];
    int file;
    snprintf(name, sizeof name, "/var/tmp/zoo-holes-%d", (int)getpid());
    file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0 && !unlink(name) && !ftruncate(file, (off_t)1 << 40));
    return file;
}

static void read_on(void)
{
    int file = holes();
    while (read(file, block, sizeof block) > 0)
        ;
}

static void map_on(void)
{
    int file = holes();
    off_t at;
    for (at = 0;; at += 64 * MIB) {
        volatile char *pages = mmap(NULL, 64 * MIB, PROT_READ, MAP_SHARED, file, at);
        size_t page;
        need(pages != MAP_FAILED);
        for (page = 0; page < 64 * MIB; page += PAGE)
            (void)pages[page];
        munmap((void *)pages, 64 * MIB);
    }
}

/* as a backup writes: what is read once goes into one file, again and again from its start */
static void copy_on(void)
{
    int from = holes(), to = disk_file(1), done;
    for (done = 0; read(from, block, sizeof block) > 0; done = (done + 1) % 64)
        need(pwrite(to, block, sizeof block, (off_t)done * MIB) == sizeof block);
}

/* as a shell that begins one small program after another */
static void begin_on(void)
{
    for (;;) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            char *pages = anonymous_pages(3 * MIB, MAP_PRIVATE);
            size_t at;
            for (at = 0; at < 3 * MIB; at += PAGE)
                pages[at]++;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* as a mail spool: files that are made and go */
static void spool_on(void)
{
    char name[96];
    size_t one;
    for (one = 0;; one++) {
        int file;
        snprintf(name, sizeof name, "/var/tmp/zoo-spool-%d-%zu", (int)getpid(), one % 2000);
        file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        need(file >= 0 && write(file, block, 100) == 100 && !close(file));
        snprintf(name, sizeof name, "/var/tmp/zoo-spool-%d-%zu", (int)getpid(), (one + 1000) % 2000);
        unlink(name);
    }
}

static void among(size_t amount, size_t count, void (*on)(void))
{
    pid_t others[OTHERS];
    size_t one;
    need(count <= OTHERS);
    for (one = 0; one < count; one++) {
        others[one] = fork();
        need(others[one] >= 0);
        if (!others[one]) {
            on();
            _exit(1);
        }
    }
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (one = 0; one < count; one++)
        kill(others[one], SIGKILL);
}

static void streams(size_t amount, size_t more)
{
    among(amount, more, read_on);
}

static void maps(size_t amount, size_t more)
{
    among(amount, more, map_on);
}

static void backups(size_t amount, size_t more)
{
    among(amount, more, copy_on);
}

static void begins(size_t amount, size_t more)
{
    among(amount, more, begin_on);
}

static void spools(size_t amount, size_t more)
{
    among(amount, more, spool_on);
}

/* copies what it reads once, beside `amount` that it holds, without end */
static void backup(size_t amount, size_t more)
{
    int from = holes(), to = disk_file(1), done;
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (done = 0;; done = (done + 1) % 64) {
        need(read(from, block, sizeof block) == sizeof block);
        need(pwrite(to, block, sizeof block, (off_t)done * MIB) == sizeof block);
        step();
    }
    (void)more;
}

/* `amount` shared, and pages of a file of `more` in no order, some of which are written: a database */
static void database(size_t amount, size_t more)
{
    int file = disk_file(more);
    char *buffers = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t seed = 1, count;
    need(buffers != MAP_FAILED);
    touch(buffers, amount * MIB);
    for (count = 1;; count++) {
        off_t page;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        page = (off_t)((seed >> 33) % (more * MIB / (2 * PAGE)) * 2 * PAGE);
        need(pread(file, block, 2 * PAGE, page) == 2 * PAGE);
        memcpy(buffers + (seed >> 33) % (amount * MIB / (2 * PAGE)) * 2 * PAGE, block, 2 * PAGE);
        if (count % 16 == 0)
            need(pwrite(file, block, 2 * PAGE, page) == 2 * PAGE);
        if (count % 64 == 0)
            step();
    }
}

/* `more` compilers at once, of `amount` each, that write what they made, without end: a build */
static void compiles(size_t amount, size_t more)
{
    size_t running = 0;
    for (;;) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
            size_t at;
            int round;
            for (round = 0; round < 20; round++)
                for (at = 0; at < amount * MIB; at += PAGE)
                    pages[at]++;
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

/* the same burst in a cgroup that it makes below its own, as a container that runs containers */
static void nested(size_t amount, size_t more)
{
    make_cgroup("/inner");
    tell_cgroup("/inner", "cgroup.procs", "0");
    grow(amount);
    (void)more;
}

/* and in a threaded one, whose processes the kernel lists in the container's own only */
static void nested_threads(size_t amount, size_t more)
{
    make_cgroup("/inner");
    tell_cgroup("/inner", "cgroup.type", "threaded");
    tell_cgroup("/inner", "cgroup.threads", "0");
    grow(amount);
    (void)more;
}

/* begins at the next whole minute, with all others that wait for it, and works for 3 s */
static void together(size_t amount, size_t more)
{
    uint64_t minute = (uint64_t)more * 1000000000, at = (now() / minute + 1) * minute;
    while (now() < at) {
        step();
        nap(100);
    }
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
}

/* ends by itself `more` ms after it came to its memory.high */
static void leaves(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    pid_t child = fork();
    need(child >= 0);
    if (!child) {
        touch(pages, amount * MIB);
        _exit(0);
    }
    nap(more);
    kill(child, SIGKILL);
    step();
}

const struct load company[] = {
    {"streams", streams}, {"maps", maps}, {"backups", backups}, {"begins", begins}, {"spools", spools}, {"backup", backup},
    {"database", database}, {"compiles", compiles}, {"nested", nested}, {"nested-threads", nested_threads}, {"together", together}, {"leaves", leaves}, {NULL, NULL},
};
