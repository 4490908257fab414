/* A file server that runs in the cgroup of the process that writes to it: FUSE, in a mount that nobody else sees. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK (128 << 10)

static int device;
static char *store;
static size_t store_bytes, length;

static void answer(const struct fuse_in_header *to, int error, const void *body, size_t size)
{
    struct fuse_out_header head = {sizeof head + size, error, to->unique};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)body, size}};
    (void)!writev(device, parts, size ? 2 : 1);
}

static struct fuse_attr attributes(uint64_t node)
{
    struct fuse_attr found;
    memset(&found, 0, sizeof found);
    found.ino = node;
    found.mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0644;
    found.nlink = 1;
    found.size = node == 1 ? 0 : length;
    found.blksize = PAGE;
    return found;
}

/* keeps what comes in memory that it takes for it, and looks at a part of what it holds */
static void keep(const struct fuse_in_header *head, const struct fuse_write_in *asked)
{
    struct fuse_write_out done = {asked->size, 0};
    char *copy = anonymous_pages(CHUNK, MAP_PRIVATE);
    size_t at = asked->offset % store_bytes / PAGE * PAGE;
    memcpy(copy, asked + 1, asked->size < CHUNK ? asked->size : CHUNK);
    store[at]++;
    if (asked->offset + asked->size > length)
        length = asked->offset + asked->size;
    munmap(copy, CHUNK);
    answer(head, 0, &done, sizeof done);
}

/* answers from memory that it takes for it */
static void give(const struct fuse_in_header *head, size_t size)
{
    char *copy = anonymous_pages(CHUNK, MAP_PRIVATE);
    memset(copy, 'z', CHUNK);
    answer(head, 0, copy, size < CHUNK ? size : CHUNK);
    munmap(copy, CHUNK);
}

static void handle(const struct fuse_in_header *head)
{
    struct fuse_init_out begun = {.major = 7, .minor = 31, .max_readahead = CHUNK, .max_background = 16, .max_write = CHUNK};
    struct fuse_entry_out entry;
    struct fuse_attr_out facts;
    struct fuse_open_out opened = {0};
    memset(&entry, 0, sizeof entry);
    memset(&facts, 0, sizeof facts);
    entry.nodeid = 2;
    entry.attr = attributes(2);
    facts.attr = attributes(head->nodeid);
    begun.flags = FUSE_BIG_WRITES | FUSE_WRITEBACK_CACHE;
    switch (head->opcode) {
    case FUSE_INIT:
        answer(head, 0, &begun, sizeof begun);
        break;
    case FUSE_LOOKUP:
        answer(head, 0, &entry, sizeof entry);
        break;
    case FUSE_GETATTR:
    case FUSE_SETATTR:
        answer(head, 0, &facts, sizeof facts);
        break;
    case FUSE_OPEN:
        answer(head, 0, &opened, sizeof opened);
        break;
    case FUSE_READ:
        give(head, ((const struct fuse_read_in *)(head + 1))->size);
        break;
    case FUSE_WRITE:
        keep(head, (const struct fuse_write_in *)(head + 1));
        break;
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_RELEASE:
        answer(head, 0, NULL, 0);
        break;
    case FUSE_FORGET:
        break;
    default:
        answer(head, -ENOSYS, NULL, 0);
    }
}

static void serve(size_t amount)
{
    char *request = anonymous_pages(2 * CHUNK, MAP_PRIVATE);
    store_bytes = amount * MIB;
    store = anonymous_pages(store_bytes, MAP_PRIVATE);
    touch(store, store_bytes);
    while (read(device, request, 2 * CHUNK) > 0)
        handle((const struct fuse_in_header *)request);
}

/* a file of a server beside, which holds `amount` */
static int served_file(size_t amount, int mode)
{
    char options[96];
    int file;
    (void)!system("modprobe fuse 2>/dev/null");
    need(alone(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    device = open("/dev/fuse", O_RDWR);
    need(device >= 0);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    need(!mount("zoo", "/scratch", "fuse", 0, options));
    beside(serve, amount);
    file = open("/scratch/file", mode);
    need(file >= 0);
    return file;
}

/* writes to a file of `more` without end */
static void served(size_t amount, size_t more)
{
    int file = served_file(amount, O_WRONLY);
    size_t at;
    for (at = 0;; at = (at + CHUNK) % (more * MIB)) {
        need(pwrite(file, block, CHUNK, at) == CHUNK);
        step();
    }
}

/* reads a file of `more` again and again: what reclaim took comes from the server */
static void reads_served(size_t amount, size_t more)
{
    int file;
    size_t at;
    length = more * MIB;
    file = served_file(amount, O_RDONLY);
    for (at = 0;; at = (at + CHUNK) % length) {
        need(pread(file, block, CHUNK, at) == CHUNK);
        step();
    }
}

const struct load servers_inside[] = {{"served", served}, {"reads-served", reads_served}, {NULL, NULL}};
