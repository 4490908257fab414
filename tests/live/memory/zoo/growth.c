/* Memory that comes in turns, from several sides, or while something else happens. */
#include "zoo.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* from the last page to the first, as stacks grow */
static void backwards(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    size_t done;
    for (done = amount; done; done--)
        touch(pages + (done - 1) * MIB, MIB);
    (void)more;
}

/* pages in no order for `more` seconds; each time one of eight goes, so that most of it lives */
static void shuffled(size_t amount, size_t more)
{
    char *pages = anonymous_pages(amount * MIB, MAP_PRIVATE);
    uint64_t end = now() + (uint64_t)more * 1000000000, count = 0, seed = 1;
    size_t all = amount * MIB / PAGE;
    touch(pages, amount * MIB);
    while (now() < end) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        char *page = pages + (seed >> 33) % all * PAGE;
        if (seed >> 61)
            page[0]++;
        else
            need(!madvise(page, PAGE, MADV_DONTNEED));
        if (count++ % 256 == 0)
            step();
    }
}

static void *arena(void *bytes)
{
    char *pages = malloc((size_t)bytes);
    need(pages != NULL);
    touch(pages, (size_t)bytes / PAGE * PAGE);
    return NULL;
}

/* `more` threads, each with an arena of the allocator */
static void threads(size_t amount, size_t more)
{
    pthread_t made[64];
    size_t one;
    for (one = 0; one < more; one++)
        need(!pthread_create(&made[one], NULL, arena, (void *)(amount * MIB / more)));
    for (one = 0; one < more; one++)
        pthread_join(made[one], NULL);
}

/* each process takes its share, and begins the next, which takes its own; `more` of them */
static void chain(size_t amount, size_t more)
{
    size_t share = amount / more;
    pid_t child = 0;
    for (; more; more--) {
        touch(anonymous_pages(share * MIB, MAP_PRIVATE), share * MIB);
        child = more > 1 ? fork() : -1;
        if (child)
            break;
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    step();
}

/* `more` children that are killed while they wait at the limit, each reaped before the next */
static void dying(size_t amount, size_t more)
{
    for (; more; more--) {
        pid_t child = fork();
        need(child >= 0);
        if (!child) {
            touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
            nap(60000);
        }
        nap(1500);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        step();
    }
}

/* sleeps for 4 s, takes `more` for a moment, again and again */
static void starts(size_t amount, size_t more)
{
    int round;
    touch(anonymous_pages(amount * MIB, MAP_PRIVATE), amount * MIB);
    for (round = 0; round < 6; round++) {
        char *pages = anonymous_pages(more * MIB, MAP_PRIVATE);
        nap(4000);
        touch(pages, more * MIB);
        munmap(pages, more * MIB);
    }
}

/* ten processes that read files of `amount` without end, beside one, whose steps count, that grows to `more` */
static void crowd(size_t amount, size_t more)
{
    static char block[64 << 10];
    pid_t children_[10];
    int one, file = disk_file(amount);
    for (one = 0; one < 10; one++) {
        size_t at;
        children_[one] = fork();
        need(children_[one] >= 0);
        for (at = one * amount * MIB / 10; !children_[one]; at = (at + sizeof block) % (amount * MIB))
            if (pread(file, block, sizeof block, at) < 0)
                _exit(1);
    }
    touch(anonymous_pages(more * MIB, MAP_PRIVATE), more * MIB);
    for (one = 0; one < 10; one++)
        kill(children_[one], SIGKILL);
}

/* one process computes without end, on `amount` / 8 of the memory, beside one, whose steps count, that takes the rest */
static void beside_work(size_t amount, size_t more)
{
    size_t own = amount / 8;
    pid_t child = fork();
    need(child >= 0);
    if (!child)
        work(anonymous_pages(own * MIB, MAP_PRIVATE), own * MIB, 600);
    nap(500);
    touch(anonymous_pages((amount - own) * MIB, MAP_PRIVATE), (amount - own) * MIB);
    kill(child, SIGKILL);
    (void)more;
}

static int volume_file(void)
{
    int file = open("/scratch/zoo", O_RDWR | O_CREAT | O_TRUNC, 0600);
    need(file >= 0);
    return file;
}

/* a file in a memory volume that is eight times as long as what is written in it */
static void sparse(size_t amount, size_t more)
{
    int file = volume_file();
    size_t one;
    need(!ftruncate(file, amount * MIB * 8));
    for (one = 0; one < amount * MIB / PAGE; one++) {
        need(pwrite(file, "z", 1, one * 8 * PAGE) == 1);
        if (one % 256 == 0)
            step();
    }
    (void)more;
}

/* a file of `amount` in a memory volume, and `more` at its end that is written and punched out again */
static void punched(size_t amount, size_t more)
{
    int file = volume_file(), round;
    fill_file(file, amount * MIB);
    for (round = 0; round < 20; round++) {
        fill_file(file, more * MIB);
        need(!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, amount * MIB, more * MIB));
        need(lseek(file, amount * MIB, SEEK_SET) >= 0);
    }
}

/* MiB that the machine has */
static size_t available(void)
{
    char line[128];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    need(file != NULL);
    while (fgets(line, sizeof line, file) && !sscanf(line, "MemAvailable: %zu", &kib))
        ;
    fclose(file);
    return kib / 1024;
}

/* takes so many MiB a second until the machine has no more than `left`, and gives back what others need of that */
static void brim(size_t left, size_t rate)
{
    static char *taken[1 << 16];
    uint64_t begun = now();
    size_t done = 0;
    while (available() > left) {
        taken[done] = anonymous_pages(MIB, MAP_PRIVATE);
        touch(taken[done++], MIB);
        while ((now() - begun) * rate < done * 1000000000ULL)
            nap(2);
    }
    for (;;) {
        step();
        while (done && available() < left)
            munmap(taken[--done], MIB);
        nap(200);
    }
}

const struct load growth[] = {
    {"backwards", backwards}, {"shuffled", shuffled}, {"threads", threads}, {"chain", chain}, {"dying", dying},
    {"starts", starts}, {"crowd", crowd}, {"beside-work", beside_work}, {"sparse", sparse}, {"punched", punched},
    {"brim", brim}, {NULL, NULL},
};
