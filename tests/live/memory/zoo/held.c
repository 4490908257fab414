/* Kernel memory that a process holds by what it asked the kernel to keep for it. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void then(size_t more)
{
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
}

/* maps of BPF of a MiB each */
static void bpf_maps(size_t amount, size_t more)
{
    size_t one;
    for (one = 0; one < amount; one++) {
        struct {
            uint32_t type, key, value, entries, flags;
            uint32_t others[25];
        } made = {2, 4, MIB - PAGE, 1, 0, {0}};
        long file = syscall(SYS_bpf, 0, &made, sizeof made);
        if (file < 0 && one == 0 && (errno == EPERM || errno == ENOSYS))
            return;
        need(file >= 0);
        step();
    }
    (void)more;
}

/* inotify watches of `amount` thousand files, whose inodes they hold: they count as reclaimable slab */
static void watches(size_t amount, size_t more)
{
    char name[64];
    int all = inotify_init();
    size_t one;
    need(all >= 0);
    for (one = 0; one < amount * 1000; one++) {
        int file;
        snprintf(name, sizeof name, "/var/tmp/zoo-%d-%zu", (int)getpid(), one);
        file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
        need(file >= 0);
        close(file);
        if (inotify_add_watch(all, name, IN_MODIFY) < 0)
            break;
        if (one % 100 == 0)
            step();
    }
    need(errno == ENOSPC || one == amount * 1000);
    then(more);
    for (one++; one--;) {
        snprintf(name, sizeof name, "/var/tmp/zoo-%d-%zu", (int)getpid(), one);
        unlink(name);
    }
}

/* children that have ended and that nobody waits for */
static void zombies(size_t amount, size_t more)
{
    for (; amount; amount--) {
        pid_t child = fork();
        if (child < 0 && errno == EAGAIN)
            break;
        need(child >= 0);
        if (!child)
            _exit(0);
        step();
    }
    (void)more;
}

/* a hundred locks of single bytes in each of `amount` files */
static void locks(size_t amount, size_t more)
{
    size_t one, at;
    for (one = 0; one < amount; one++) {
        int file = memfd_create("zoo", 0);
        need(file >= 0);
        for (at = 0; at < 100; at++) {
            struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at * 2, .l_len = 1};
            need(!fcntl(file, F_SETLK, &lock));
        }
        step();
    }
    then(more);
}

const struct load held[] = {
    {"bpf-maps", bpf_maps}, {"watches", watches}, {"zombies", zombies}, {"locks", locks}, {NULL, NULL},
};
