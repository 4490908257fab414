/* Loads for cgroups with a memory limit. Each counts its steps in a shared mapping of a file, so that
   whoever maps it sees how far the load came, and when, without asking the load. */
#ifndef ZOO_H
#define ZOO_H
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MIB ((size_t)1 << 20)
#define PAGE ((size_t)4096)

enum state { RUNNING, DONE, FAILED };

/* Times in ns of CLOCK_MONOTONIC. `cgroup` is the path below the mount of cgroup v2. */
struct progress {
    volatile uint64_t count, first, last, ended;
    volatile int32_t pid, state, error;
    char cgroup[1024];
};

/* A row: amounts are MiB unless its comment says so. A load that returns has finished. */
struct load {
    const char *name;
    void (*run)(size_t amount, size_t more);
};

extern const struct load anonymous[], shared[], files[], kernel[], growth[], pinned[], company[], cycles[], held[],
    servers[], disks[], objects[], tricks[], turns[], kept[], servers_inside[], ties[], odd[];

/* What all loads read into and write from: with a block of its own for each, the program would be large
   enough for a huge page, which counts against the limit of loads that fit it narrowly. */
extern char block[1 << 20];

uint64_t now(void);
void nap(unsigned milliseconds);
void step(void);
/* Ends the process where a call failed: the reader sees FAILED and errno. */
void need(int worked);
void *anonymous_pages(size_t bytes, int flags);
/* Writes to each page, a step a MiB. */
void touch(char *pages, size_t bytes);
/* Writes to so many MiB of its own. */
void grow(size_t amount);
/* The same again and again for so many seconds. */
void work(char *pages, size_t bytes, unsigned seconds);
void fill_file(int file, size_t bytes);
/* Runs `part` in so many children and waits for them. */
void children(unsigned count, void (*part)(size_t amount), size_t amount);
/* A child that does something else meanwhile, until it is killed. */
pid_t beside(void (*on)(size_t amount), size_t amount);
/* Makes a cgroup below the load's own ("/NAME"), and writes to a file of it, or of its own (""). */
void make_cgroup(const char *group);
void remove_cgroup(const char *group);
void tell_cgroup(const char *group, const char *file, const char *text);
/* The same; whether it could be written. */
int try_cgroup(const char *group, const char *file, const char *text);
/* Puts the process into a user namespace in which it is root, and into others; whether that is allowed. */
int alone(int flags);
/* A file on the root's disk of so many MiB, and one in the working folder (a memory volume). */
int disk_file(size_t mib);
int watch(const char *folder, const char *report);
#endif
