/* Files as programs use them: copies, archives, logs, journals, streams, and file systems of one's own. */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static void hold(size_t amount)
{
    if (amount)
        touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
}

/* copies a file of `amount` on the disk into a memory volume */
static void copied_in(size_t amount, size_t more)
{
    int from = disk_file(amount), to = open("/scratch/copy", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    size_t done;
    need(to >= 0);
    for (done = 0; done < amount; done++) {
        need(read(from, block, MIB) == (ssize_t)MIB && write(to, block, MIB) == (ssize_t)MIB);
        step();
    }
    (void)more;
}

/* a file of `more` in a memory volume that grows and is cut again without end, beside `amount` */
static void regrown(size_t amount, size_t more)
{
    int file = open("/scratch/one", O_RDWR | O_CREAT | O_TRUNC, 0600);
    hold(amount);
    for (;;) {
        need(file >= 0 && !lseek(file, 0, SEEK_SET) && !ftruncate(file, 0));
        fill_file(file, more * MIB);
    }
}

/* `amount` hundred files of 64 KiB in folders, made and removed: an archive that is unpacked */
static void unpacked(size_t amount, size_t more)
{
    char folder[64], name[96];
    size_t one, round;
    snprintf(folder, sizeof folder, "/var/tmp/zoo-%d-d", (int)getpid());
    for (round = 0; round < more; round++) {
        need(!mkdir(folder, 0700));
        for (one = 0; one < amount * 100; one++) {
            int file;
            snprintf(name, sizeof name, "%s/%zu", folder, one);
            file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
            need(file >= 0 && write(file, block, 64 << 10) == 64 << 10 && !close(file));
            if (one % 10 == 0)
                step();
        }
        for (one = 0; one < amount * 100; one++) {
            snprintf(name, sizeof name, "%s/%zu", folder, one);
            need(!unlink(name));
            if (one % 10 == 0)
                step();
        }
        need(!rmdir(folder));
    }
}

/* writes lines to a log beside `amount`, which is read through and begun anew at `more` MiB, without end */
static void logs(size_t amount, size_t more)
{
    int file = disk_file(0);
    size_t line;
    hold(amount);
    for (line = 0;; line++) {
        need(write(file, block, 4000) == 4000);
        if (line % 200 == 199)
            need(!fdatasync(file));
        if (line % 200 == 199)
            step();
        if (line * 4000 > more * MIB) {
            off_t at;
            for (at = 0; pread(file, block, sizeof block, at) > 0; at += sizeof block)
                step();
            need(!ftruncate(file, 0) && !lseek(file, 0, SEEK_SET));
            line = 0;
        }
    }
}

/* writes to pages of a mapped file of `amount` in no order, without end */
static void scattered(size_t amount, size_t more)
{
    int file = disk_file(amount);
    char *pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    uint64_t seed = 1, count;
    need(pages != MAP_FAILED);
    hold(more);
    for (count = 1;; count++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        pages[(seed >> 33) % (amount * MIB / PAGE) * PAGE]++;
        if (count % 64 == 0)
            step();
    }
}

/* transactions on a file of `more`, each with a journal of its own that is synced and removed, beside `amount` */
static void journal(size_t amount, size_t more)
{
    int file = disk_file(more);
    char name[64];
    uint64_t seed = 1;
    snprintf(name, sizeof name, "/var/tmp/zoo-%d-j", (int)getpid());
    hold(amount);
    for (;;) {
        off_t page;
        int old = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        page = (off_t)((seed >> 33) % (more * MIB / PAGE) * PAGE);
        need(old >= 0 && pread(file, block, PAGE, page) == (ssize_t)PAGE);
        need(write(old, block, PAGE) == (ssize_t)PAGE && !fsync(old));
        need(pwrite(file, block, PAGE, page) == (ssize_t)PAGE && !fdatasync(file));
        need(!close(old) && !unlink(name));
        step();
    }
}

/* reads a file of `more` through two pipes and writes it elsewhere, without end, beside `amount`: tar, gzip, cat */
static void pipeline(size_t amount, size_t more)
{
    int from = disk_file(more), first[2], second[2], part;
    static char own[64 << 10];
    need(!pipe(first) && !pipe(second));
    hold(amount);
    for (part = 0; part < 2; part++) {
        pid_t child = fork();
        need(child >= 0);
        if (child)
            continue;
        for (;;) {
            ssize_t size = part ? read(first[0], own, sizeof own) : read(from, own, sizeof own);
            if (!part && size == 0 && !lseek(from, 0, SEEK_SET))
                continue;
            if (size <= 0 || write(part ? second[1] : first[1], own, size) != size)
                _exit(1);
        }
    }
    {
        int to = disk_file(0);
        size_t done = 0;
        for (;; done++) {
            ssize_t size = read(second[0], own, sizeof own);
            need(size > 0 && pwrite(to, own, size, done % 1024 * sizeof own) == size);
            if (done % 16 == 0)
                step();
        }
    }
}

/* asks the kernel to read ahead a file of `more` again and again, beside `amount` to which it grew */
static void ahead(size_t amount, size_t more)
{
    int file = disk_file(more);
    size_t at;
    hold(amount);
    for (at = 0;; at = (at + MIB) % (more * MIB)) {
        posix_fadvise(file, at, 8 * MIB, POSIX_FADV_WILLNEED);
        need(pread(file, block, PAGE, at) == (ssize_t)PAGE);
        step();
    }
}

/* sends a file of `more` through a pipe to where it is dropped, without end, beside `amount`: a proxy */
static void proxied(size_t amount, size_t more)
{
    int file = disk_file(more), to = open("/dev/null", O_WRONLY), ends[2];
    loff_t from = 0;
    need(to >= 0 && !pipe(ends));
    hold(amount);
    for (;;) {
        ssize_t size = splice(file, &from, ends[1], NULL, 64 << 10, 0);
        if (size == 0) {
            from = 0;
            continue;
        }
        need(size > 0 && splice(ends[0], NULL, to, NULL, size, 0) == size);
        if (from % MIB == 0)
            step();
    }
}

/* writes to a private mapping of a file */
static void private_file(size_t amount, size_t more)
{
    char *pages = mmap(NULL, amount * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, disk_file(amount), 0);
    need(pages != MAP_FAILED);
    touch(pages, amount * MIB);
    (void)more;
}

/* `amount` folders, each in the one before, fifty deep, again and again, in the working volume or on the disk */
static void trees(size_t amount, size_t more)
{
    char name[64];
    size_t one;
    if (more)
        snprintf(name, sizeof name, "/var/tmp/zoo-%d-t", (int)getpid());
    else
        snprintf(name, sizeof name, "/scratch/tree");
    for (one = 0; one < amount; one++) {
        char next[96];
        if (one % 50 == 0) {
            snprintf(next, sizeof next, "%s%zu", name, one);
            need((!mkdir(next, 0700) || errno == EEXIST) && !chdir(next));
            step();
        }
        snprintf(next, sizeof next, "folder-with-a-long-name-as-packages-have-%zu", one);
        need((!mkdir(next, 0700) || errno == EEXIST) && !chdir(next));
    }
    need(!chdir("/"));
}

/* `amount` files in a memory volume with attributes of 30 KiB each */
static void attributes(size_t amount, size_t more)
{
    char name[64];
    size_t one;
    for (one = 0; one < amount; one++) {
        int file;
        snprintf(name, sizeof name, "/scratch/%zu", one);
        file = open(name, O_WRONLY | O_CREAT, 0600);
        need(file >= 0);
        if (fsetxattr(file, "user.zoo", block, 30000, 0) && (errno == ENOTSUP || errno == EOPNOTSUPP))
            return;
        need(!close(file));
        step();
    }
    hold(more);
}

static int own_mounts(void)
{
    return alone(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* fills a tmpfs of its own, which nobody else sees, with `amount`; if `more`, in huge pages */
static void own_tmpfs(size_t amount, size_t more)
{
    int file;
    need(own_mounts() && !mount("zoo", "/scratch", "tmpfs", 0, more ? "huge=always" : NULL));
    file = open("/scratch/one", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0);
    fill_file(file, amount * MIB);
}

/* changes a byte of files of a MiB below an overlay whose upper side is a tmpfs */
static void overlay(size_t amount, size_t more)
{
    char name[128], options[256];
    size_t one;
    need(own_mounts() && !mount("zoo", "/scratch", "tmpfs", 0, NULL));
    need(!mkdir("/scratch/u", 0700) && !mkdir("/scratch/w", 0700) && !mkdir("/scratch/m", 0700));
    snprintf(name, sizeof name, "/var/tmp/zoo-%d-l", (int)getpid());
    need(!mkdir(name, 0700));
    for (one = 0; one < amount; one++) {
        char part[160];
        int file;
        snprintf(part, sizeof part, "%s/%zu", name, one);
        file = open(part, O_WRONLY | O_CREAT, 0600);
        need(file >= 0);
        fill_file(file, MIB);
        need(!close(file));
    }
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=/scratch/u,workdir=/scratch/w", name);
    need(!mount("zoo", "/scratch/m", "overlay", 0, options));
    for (one = 0; one < amount; one++) {
        char part[160];
        int file;
        snprintf(part, sizeof part, "/scratch/m/%zu", one);
        file = open(part, O_WRONLY);
        need(file >= 0 && write(file, "x", 1) == 1 && !close(file));
        step();
    }
    (void)more;
}

/* reads long files of /proc about itself, with `more` thousand mappings, without end, beside `amount` */
static void inspected(size_t amount, size_t more)
{
    size_t one;
    hold(amount);
    for (one = 0; one < more * 1000; one++)
        need(mmap(NULL, PAGE, one % 2 ? PROT_READ : PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0) != MAP_FAILED);
    for (;;) {
        static const char *const files[] = {"/proc/self/maps", "/proc/self/smaps", "/proc/kallsyms"};
        for (one = 0; one < 3; one++) {
            int file = open(files[one], O_RDONLY);
            need(file >= 0);
            while (read(file, block, sizeof block) > 0)
                step();
            close(file);
        }
    }
}

const struct load disks[] = {
    {"copied-in", copied_in}, {"regrown", regrown}, {"unpacked", unpacked}, {"logs", logs}, {"scattered", scattered}, {"journal", journal},
    {"pipeline", pipeline}, {"ahead", ahead}, {"proxied", proxied}, {"private-file", private_file}, {"trees", trees},
    {"attributes", attributes}, {"own-tmpfs", own_tmpfs}, {"overlay", overlay}, {"inspected", inspected}, {NULL, NULL},
};
