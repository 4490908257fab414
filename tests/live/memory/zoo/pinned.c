/* Memory that a pipe, a socket, a ring or a descriptor holds, beside what grows then. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void then(size_t more)
{
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

/* The pages themselves go into pipes, and nobody else has them afterwards. */
static void into_pipes(char *pages, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        int ends[2];
        ssize_t size;
        need(!pipe2(ends, O_NONBLOCK));
        do {
            struct iovec part = {pages + done, bytes - done < 64 << 10 ? bytes - done : 64 << 10};
            size = vmsplice(ends[1], &part, 1, SPLICE_F_NONBLOCK);
            done += size > 0 ? size : 0;
            step();
        } while (size > 0 && done < bytes);
    }
    need(!munmap(pages, bytes));
}

static void vmspliced(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    touch(pages, amount * MIB);
    into_pipes(pages, amount * MIB);
    then(more);
}

/* the same with the page cache of a file */
static void file_vmspliced(size_t amount, size_t more)
{
    int file = disk_file(amount);
    char *pages = mmap(NULL, amount * MIB, PROT_READ, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    into_pipes(pages, amount * MIB);
    then(more);
}

/* and while another process computes */
static void beside_pinned(size_t amount, size_t more)
{
    pid_t child = fork();
    need(child >= 0);
    if (!child)
        work(anonymous_pages(4 * MIB, MAP_PRIVATE), 4 * MIB, 600);
    file_vmspliced(amount, more);
    kill(child, SIGKILL);
}

static void reads_on(size_t amount)
{
    int file = disk_file(amount);
    need(!ftruncate(file, (off_t)1 << 38));
    while (read(file, block, sizeof block) > 0)
        ;
}

static void computes(size_t amount)
{
    work(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB, 600);
}

/* and while four others read files once, which gives a little back that is filled at once */
static void streams_beside_pinned(size_t amount, size_t more)
{
    pid_t others[5];
    int one, file = disk_file(amount);
    char *pages = mmap(NULL, amount * MIB, PROT_READ, MAP_SHARED, file, 0);
    need(pages != MAP_FAILED);
    into_pipes(pages, amount * MIB);
    for (one = 0; one < 5; one++)
        others[one] = beside(one ? reads_on : computes, one ? 0 : 1);
    then(more);
    for (one = 0; one < 5; one++)
        kill(others[one], SIGKILL);
}

/* page cache that goes into a pipe, from there into others, and out of the first */
static void teed(size_t amount, size_t more)
{
    static char block[64 << 10];
    int file = disk_file(amount), first[2];
    loff_t from = 0;
    need(!pipe2(first, O_NONBLOCK));
    while (from < (loff_t)(amount * MIB)) {
        int ends[2];
        ssize_t size = splice(file, &from, first[1], NULL, 64 << 10, SPLICE_F_NONBLOCK);
        need(size > 0 && !pipe2(ends, O_NONBLOCK));
        need(tee(first[0], ends[1], size, SPLICE_F_NONBLOCK) == size);
        need(read(first[0], block, size) == size);
        step();
    }
    then(more);
}

/* a file sent through unix sockets that nobody reads */
static void sent_unix(size_t amount, size_t more)
{
    int file = disk_file(amount), peer;
    off_t from = 0;
    for (peer = 0; peer < 2000 && from < (off_t)(amount * MIB); peer++) {
        int ends[2];
        need(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
        while (from < (off_t)(amount * MIB) && sendfile(ends[0], file, &from, 64 << 10) > 0)
            step();
    }
    then(more);
}

/* memory files of a MiB that only messages in unix sockets hold */
static void passed(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        int ends[2], file = memfd_create("zoo", 0);
        char room[CMSG_SPACE(sizeof file)] = {0}, byte = 0;
        struct iovec part = {&byte, 1};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        need(file >= 0 && !socketpair(AF_UNIX, SOCK_DGRAM, 0, ends));
        fill_file(file, MIB);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(head), &file, sizeof file);
        need(sendmsg(ends[0], &message, 0) == 1);
        close(file);
    }
    then(more);
}

/* buffers that a ring of io_uring has pinned, and nobody maps any more */
static void registered(size_t amount, size_t more)
{
    unsigned char settings[120] = {0};
    long ring = syscall(425, 8, settings);
    struct iovec part = {anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB};
    if (ring < 0 && (errno == ENOSYS || errno == EPERM))
        return;
    need(ring >= 0);
    touch(part.iov_base, amount * MIB);
    need(!syscall(427, ring, 0, &part, 1) && !munmap(part.iov_base, amount * MIB));
    then(more);
}

/* thousands of files on a disk that are open: their inodes count as reclaimable slab, and are not */
static void open_files(size_t amount, size_t more)
{
    char name[64];
    size_t one;
    for (one = 0; one < amount * 1000; one++) {
        int file;
        snprintf(name, sizeof name, "/var/tmp/zoo-%d-%zu", (int)getpid(), one);
        file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (file < 0 && (errno == EMFILE || errno == ENFILE))
            break;
        need(file >= 0 && !unlink(name));
        if (one % 100 == 0)
            step();
    }
    then(more);
}

const struct load pinned[] = {
    {"vmspliced", vmspliced}, {"file-vmspliced", file_vmspliced}, {"beside-pinned", beside_pinned},
    {"streams-beside-pinned", streams_beside_pinned}, {"teed", teed}, {"sent-unix", sent_unix},
    {"passed", passed}, {"registered", registered}, {"open-files", open_files}, {NULL, NULL},
};
