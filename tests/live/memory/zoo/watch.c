/* Reads the progress of all loads ten times a second until SIGTERM, and writes a line a load:
   NAME COUNT STATE ERROR SECONDS ALIVE GAP_HIGH GAP_MAX GAP_ELSE HIGH_EVENTS MAX_EVENTS OOM_KILLS PEAK QUEUED
   A gap is a time without a step; it belongs to where usage stood for most of it: at memory.high below
   the limit, at memory.max, or elsewhere. QUEUED: for how long of the first the load's first thread could
   have run and had no CPU. In seconds and MiB. */
#include "zoo.h"
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOADS 1024
enum place { HIGH, MAX, ELSEWHERE, PLACES };

struct seen {
    char name[64];
    struct progress *at;
    uint64_t last, longest[PLACES], ended, queued, queued_high;
    int pid;
    unsigned samples[PLACES];
    long events[3], peak;
};

static struct seen loads[LOADS];
static int count;
static volatile sig_atomic_t over;

static void stop(int signal)
{
    over = signal;
}

static int text_of(const struct seen *one, const char *file, char *text, size_t size)
{
    char path[1400];
    int opened;
    ssize_t length;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", one->at->cgroup, file);
    opened = open(path, O_RDONLY);
    if (opened < 0)
        return 0;
    length = read(opened, text, size - 1);
    close(opened);
    text[length > 0 ? length : 0] = 0;
    return length > 0;
}

static long kib_of(const struct seen *one, const char *file)
{
    char text[64];
    if (!text_of(one, file, text, sizeof text))
        return -1;
    return *text == 'm' ? 1 << 30 : strtol(text, NULL, 10) >> 10;
}

/* The smallest of a file from the load's cgroup up; KiB. */
static long least(const struct seen *one, const char *file)
{
    struct seen above = *one;
    static struct progress copy;
    long smallest = 1 << 30;
    char *slash;
    memcpy(&copy, one->at, sizeof copy);
    above.at = &copy;
    while ((slash = strrchr(copy.cgroup, '/')) && slash != copy.cgroup) {
        long value = kib_of(&above, file);
        if (value >= 0 && value < smallest)
            smallest = value;
        *slash = 0;
    }
    return smallest;
}

static enum place place_of(struct seen *one)
{
    long current = kib_of(one, "memory.current"), high, max;
    if (current < 0)
        return ELSEWHERE;
    if (current > one->peak)
        one->peak = current;
    high = least(one, "memory.high");
    max = least(one, "memory.max");
    /* the kernel charges 64 pages at once, and takes back what is not asked for while the task waits */
    if (high < max && current > high - (high / 50 > 256 ? high / 50 : 256) && current < max - max / 50)
        return HIGH;
    return current >= max - max / 50 ? MAX : ELSEWHERE;
}

static void events(struct seen *one)
{
    static const char *const keys[] = {"high ", "\nmax ", "oom_kill "};
    char text[512];
    int key;
    if (!text_of(one, "memory.events", text, sizeof text))
        return;
    for (key = 0; key < 3; key++) {
        char *found = strstr(text, keys[key]);
        if (found)
            one->events[key] = strtol(found + strlen(keys[key]), NULL, 10);
    }
}

static void find(const char *folder)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all)) && count < LOADS) {
        char path[512];
        int one, file;
        for (one = 0; one < count && strcmp(loads[one].name, entry->d_name); one++)
            ;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (one < count || entry->d_name[0] == '.' || (file = open(path, O_RDONLY)) < 0)
            continue;
        if (lseek(file, 0, SEEK_END) >= (off_t)sizeof(struct progress)) {
            struct progress *at = mmap(NULL, sizeof *at, PROT_READ, MAP_SHARED, file, 0);
            if (at != MAP_FAILED && at->pid) {
                snprintf(loads[count].name, sizeof loads[count].name, "%.63s", entry->d_name);
                loads[count].last = at->first;
                loads[count++].at = at;
            }
        }
        close(file);
    }
    if (all)
        closedir(all);
}

/* ns for which the load's first thread waited for a CPU so far. */
static uint64_t queued(const struct seen *one)
{
    char path[64], text[96] = "";
    unsigned long long ran, waited = 0;
    int file;
    snprintf(path, sizeof path, "/proc/%d/schedstat", one->pid);
    file = open(path, O_RDONLY);
    if (file >= 0 && read(file, text, sizeof text - 1) > 0)
        sscanf(text, "%llu %llu", &ran, &waited);
    if (file >= 0)
        close(file);
    return waited;
}

static void gap(struct seen *one, uint64_t to)
{
    uint64_t waited;
    uint64_t length = to > one->last ? to - one->last : 0;
    enum place most = ELSEWHERE;
    int place;
    for (place = 0; place < PLACES; place++)
        if (one->samples[place] > one->samples[most])
            most = place;
    if (length <= one->longest[most])
        return;
    one->longest[most] = length;
    waited = queued(one);
    if (most == HIGH && waited > one->queued)
        one->queued_high = waited - one->queued;
}

static void look(struct seen *one)
{
    uint64_t last = one->at->last, at = now();
    if (one->at->pid && one->at->pid != one->pid) { /* it was begun again */
        one->pid = one->at->pid;
        one->last = one->at->first;
        one->queued = one->ended = 0;
        memset(one->samples, 0, sizeof one->samples);
    }
    if (one->ended)
        return;
    events(one);
    if (last != one->last) {
        gap(one, last);
        one->last = last;
        one->queued = queued(one);
        memset(one->samples, 0, sizeof one->samples);
    }
    if (one->at->state != RUNNING || kill(one->at->pid, 0)) {
        one->ended = one->at->state != RUNNING ? one->at->ended : at;
        gap(one, one->ended);
        return;
    }
    one->samples[place_of(one)]++;
    gap(one, at);
}

static void report(const char *file)
{
    FILE *out = fopen(file, "w");
    int place;
    struct seen *one;
    for (one = loads; out && one < loads + count; one++) {
        fprintf(out, "%s %llu %d %d %.2f %d", one->name, (unsigned long long)one->at->count, one->at->state,
                one->at->error, ((one->ended ? one->ended : now()) - one->at->first) / 1e9, !one->ended);
        for (place = 0; place < PLACES; place++)
            fprintf(out, " %.2f", one->longest[place] / 1e9);
        fprintf(out, " %ld %ld %ld %ld", one->events[0], one->events[1], one->events[2], one->peak >> 10);
        fprintf(out, " %.2f\n", one->queued_high / 1e9);
    }
    if (out)
        fclose(out);
}

int watch(const char *folder, const char *file)
{
    signal(SIGTERM, stop);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    setpriority(PRIO_PROCESS, 0, -10);
    while (!over) {
        int one;
        find(folder);
        for (one = 0; one < count; one++)
            look(&loads[one]);
        nap(100);
    }
    report(file);
    return 0;
}
