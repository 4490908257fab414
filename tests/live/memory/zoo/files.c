/* Page cache: clean, dirty, mapped, and held where reclaim cannot get at it. */
#include "zoo.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_through(int file, size_t amount)
{
    size_t done;
    for (done = 0; done < amount; done++) {
        need(pread(file, block, MIB, done * MIB) == (ssize_t)MIB);
        step();
    }
}

/* `more` MiB anonymous beside a file that is read without end */
static void reader(size_t amount, size_t more)
{
    int file = disk_file(amount);
    if (more)
        touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
    for (;;)
        read_through(file, amount);
}

/* one process reads a file without end while the other, whose steps count, grows to `more` */
static void mixture(size_t amount, size_t more)
{
    int file = disk_file(amount);
    pid_t child = fork();
    size_t at;
    need(child >= 0);
    for (at = 0; !child; at = (at + 1) % amount)
        if (pread(file, block, MIB, at * MIB) != (ssize_t)MIB)
            _exit(1);
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
    kill(child, SIGKILL);
}

static void mapped(size_t amount, size_t more)
{
    int file = disk_file(amount);
    volatile char *pages = mmap(NULL, amount * MIB, PROT_READ, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    if (more)
        touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
    for (;;) {
        size_t at;
        for (at = 0; at < amount * MIB; at += PAGE) {
            (void)pages[at];
            if (at % MIB == 0)
                step();
        }
    }
}

static void writer(size_t amount, size_t more)
{
    int file = disk_file(1);
    for (;;) {
        need(lseek(file, 0, SEEK_SET) == 0);
        fill_file(file, amount * MIB);
        if (more)
            need(!fsync(file));
    }
}

static void dirty_map(size_t amount, size_t more)
{
    int file = disk_file(amount);
    char *pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    for (;;) {
        touch(pages, amount * MIB);
        need(!msync(pages, amount * MIB, MS_SYNC));
    }
    (void)more;
}

static int listener(struct sockaddr_in *at)
{
    socklen_t size = sizeof *at;
    int socket_ = socket(AF_INET, SOCK_STREAM, 0);
    memset(at, 0, sizeof *at);
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(socket_ >= 0 && !bind(socket_, (struct sockaddr *)at, sizeof *at) && !listen(socket_, 64));
    need(!getsockname(socket_, (struct sockaddr *)at, &size));
    return socket_;
}

/* One end of a connection whose other end nobody reads. */
static int unread(int listening, struct sockaddr_in *at)
{
    int end = socket(AF_INET, SOCK_STREAM, 0);
    need(end >= 0 && !connect(end, (struct sockaddr *)at, sizeof *at));
    need(accept(listening, NULL, NULL) >= 0 && fcntl(end, F_SETFL, O_NONBLOCK) >= 0);
    return end;
}

/* a web server with slow clients: a file sent to peers that do not read, then `more` anonymous */
static void sent(size_t amount, size_t more)
{
    int file = disk_file(amount), peer, tries = 0;
    struct sockaddr_in at;
    int listening = listener(&at);
    off_t from = 0;
    for (peer = 0; peer < 40 && from < (off_t)(amount * MIB); peer++) {
        int end = unread(listening, &at);
        while (sendfile(end, file, &from, MIB) > 0)
            step();
    }
    (void)tries;
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

/* `amount` MiB of page cache spliced into pipes that nobody reads, then `more` anonymous */
static void spliced(size_t amount, size_t more)
{
    int file = disk_file(amount);
    loff_t from = 0;
    while (from < (loff_t)(amount * MIB)) {
        int ends[2];
        need(!pipe2(ends, O_NONBLOCK));
        while (from < (loff_t)(amount * MIB) && splice(file, &from, ends[1], NULL, 64 << 10, SPLICE_F_NONBLOCK) > 0)
            step();
    }
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

/* a file whose pages are locked, then `more` anonymous */
static void locked_file(size_t amount, size_t more)
{
    int file = disk_file(amount);
    char *pages = mmap(NULL, amount * MIB, PROT_READ, MAP_SHARED, file, 0);
    size_t done;
    need(pages != MAP_FAILED);
    for (done = 0; done < amount; done++) {
        need(!mlock(pages + done * MIB, MIB));
        step();
    }
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

static void many_files(const char *folder, size_t count, size_t bytes)
{
    char name[128];
    size_t one;
    need(!mkdir(folder, 0700));
    for (one = 0; one < count; one++) {
        int file;
        snprintf(name, sizeof name, "%s/a-name-as-of-a-session-or-a-lock-%zu", folder, one);
        file = open(name, O_WRONLY | O_CREAT, 0600);
        need(file >= 0 && write(file, block, bytes) == (ssize_t)bytes);
        close(file);
        if (one % 100 == 0)
            step();
    }
}

/* thousands of files of `more` bytes in a memory volume: their dentries and inodes are pinned */
static void volume_files(size_t amount, size_t more)
{
    many_files("/scratch/zoo", amount * 1000, more);
}

/* the same on a disk, where they are not */
static void disk_files(size_t amount, size_t more)
{
    char folder[64], line[96];
    int failed;
    snprintf(folder, sizeof folder, "/var/tmp/zoo-%d", (int)getpid());
    many_files(folder, amount * 1000, more);
    snprintf(line, sizeof line, "rm -rf %s", folder);
    failed = system(line);
    need(!failed);
}

/* names that do not exist, without end: negative dentries */
static void misses(size_t amount, size_t more)
{
    char name[128];
    struct stat found;
    size_t one;
    for (one = 0;; one++) {
        snprintf(name, sizeof name, "/var/tmp/no-such-name-as-of-a-search-path-%zu", one);
        stat(name, &found);
        if (one % 1000 == 0)
            step();
    }
    (void)amount;
    (void)more;
}

const struct load files[] = {
    {"reader", reader}, {"mixture", mixture}, {"mapped", mapped}, {"writer", writer}, {"dirty-map", dirty_map}, {"sent", sent},
    {"spliced", spliced}, {"locked-file", locked_file}, {"volume-files", volume_files},
    {"disk-files", disk_files}, {"misses", misses}, {NULL, NULL},
};
