/* zoo PROGRESS LOAD [AMOUNT [MORE]] | zoo watch FOLDER REPORT | zoo list */
#include "zoo.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char block[1 << 20];
static struct progress *mine;
static const struct load *const tables[] = {anonymous, growth, company, shared, files, pinned, kernel,
                                            cycles, held, servers, disks, objects, tricks, turns, kept, servers_inside, ties, odd};

uint64_t now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

void nap(unsigned milliseconds)
{
    usleep(milliseconds * 1000);
}

void step(void)
{
    mine->last = now();
    mine->count++;
}

static void leave(int state, int error)
{
    mine->ended = now();
    mine->error = error;
    mine->state = state;
    exit(state == DONE ? 0 : 3);
}

void need(int worked)
{
    if (!worked)
        leave(FAILED, errno);
}

void *anonymous_pages(size_t bytes, int flags)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
    need(pages != MAP_FAILED);
    madvise(pages, bytes, MADV_NOHUGEPAGE);
    return pages;
}

void touch(char *pages, size_t bytes)
{
    size_t at;
    for (at = 0; at < bytes; at += PAGE) {
        pages[at]++;
        if (at % MIB == MIB - PAGE)
            step();
    }
}

void grow(size_t amount)
{
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
}

void work(char *pages, size_t bytes, unsigned seconds)
{
    uint64_t end = now() + (uint64_t)seconds * 1000000000;
    while (now() < end)
        touch(pages, bytes);
}

void fill_file(int file, size_t bytes)
{
    static char block[1 << 20];
    size_t done;
    memset(block, 'z', sizeof block);
    for (done = 0; done < bytes; done += sizeof block) {
        need(write(file, block, sizeof block) == sizeof block);
        step();
    }
}

void children(unsigned count, void (*part)(size_t amount), size_t amount)
{
    unsigned one;
    for (one = 0; one < count; one++) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            part(amount);
            _exit(0);
        }
        step();
    }
    while (wait(NULL) > 0)
        step();
}

pid_t beside(void (*on)(size_t amount), size_t amount)
{
    pid_t child = fork();
    need(child >= 0);
    if (!child) {
        on(amount);
        _exit(1);
    }
    return child;
}

void make_cgroup(const char *group)
{
    char path[1200];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s", mine->cgroup, group);
    need(!mkdir(path, 0755));
}

void remove_cgroup(const char *group)
{
    char path[1200];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s", mine->cgroup, group);
    need(!rmdir(path));
}

int try_cgroup(const char *group, const char *name, const char *text)
{
    char path[1300];
    int file, worked;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/%s", mine->cgroup, group, name);
    file = open(path, O_WRONLY);
    worked = file >= 0 && write(file, text, strlen(text)) > 0;
    if (file >= 0)
        close(file);
    return worked;
}

void tell_cgroup(const char *group, const char *name, const char *text)
{
    need(try_cgroup(group, name, text));
}

int alone(int flags)
{
    static const char *const words[][2] = {{"uid_map", "0 0 1"}, {"setgroups", "deny"}, {"gid_map", "0 0 1"}};
    size_t one;
    if (unshare(CLONE_NEWUSER | flags))
        return 0;
    for (one = 0; one < 3; one++) {
        char name[64];
        int file;
        snprintf(name, sizeof name, "/proc/self/%s", words[one][0]);
        file = open(name, O_WRONLY);
        if (file < 0 || write(file, words[one][1], strlen(words[one][1])) < 0 || close(file))
            return 0;
    }
    return 1;
}

int disk_file(size_t mib)
{
    char name[64];
    int file;
    off_t size;
    snprintf(name, sizeof name, "/var/tmp/zoo-%d", (int)getpid());
    file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0 && !unlink(name));
    fill_file(file, mib * MIB);
    size = lseek(file, 0, SEEK_SET);
    need(size == 0 && !fsync(file));
    return file;
}

static void begin(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600), group = open("/proc/self/cgroup", O_RDONLY);
    char text[2048];
    char *found;
    ssize_t size;
    if (file < 0 || ftruncate(file, sizeof *mine))
        exit(4);
    mine = mmap(NULL, sizeof *mine, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mine == MAP_FAILED)
        exit(4);
    close(file);
    memset(mine, 0, sizeof *mine);
    size = read(group, text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    close(group);
    found = strstr(text, "0::");
    if (found)
        sscanf(found + 3, "%1023[^\n]", mine->cgroup);
    mine->first = mine->last = now();
    mine->pid = getpid();
}

static const struct load *named(const char *name)
{
    size_t table;
    for (table = 0; table < sizeof tables / sizeof *tables; table++) {
        const struct load *one;
        for (one = tables[table]; one->name; one++)
            if (!name)
                puts(one->name);
            else if (!strcmp(one->name, name))
                return one;
    }
    return NULL;
}

int main(int count, char **words)
{
    const struct load *load;
    struct rlimit all;
    if (count == 2 && !strcmp(words[1], "list"))
        return named(NULL) != NULL;
    if (count == 4 && !strcmp(words[1], "watch"))
        return watch(words[2], words[3]);
    if (count < 3 || !(load = named(words[2])))
        return 2;
    begin(words[1]);
    if (!getrlimit(RLIMIT_NOFILE, &all)) {
        all.rlim_cur = all.rlim_max;
        setrlimit(RLIMIT_NOFILE, &all);
    }
    load->run(count > 3 ? strtoul(words[3], NULL, 10) : 0, count > 4 ? strtoul(words[4], NULL, 10) : 0);
    leave(DONE, 0);
    return 0;
}
