/* Takes memory: hog LOAD MIB SECONDS. "touch" writes a byte to each page within SECONDS, as heaps grow;
   "hold" does so and goes through them again and again; "read" fills the same memory inside one system call. Built by bench.memory.memqos. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    size_t mib = 1 << 20, amount = strtoul(words[2], NULL, 10), page = sysconf(_SC_PAGESIZE);
    double seconds = strtod(words[3], NULL), begun = now();
    char *held = mmap(NULL, amount * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED)
        return 1;
    madvise(held, amount * mib, MADV_NOHUGEPAGE);
    if (!strcmp(words[1], "read"))
        return read(open("/dev/zero", O_RDONLY), held, amount * mib) < 0;
    for (size_t done = 0; done < amount; done++) {
        for (size_t at = 0; at < mib; at += page)
            held[done * mib + at] = 1;
        double left = begun + seconds * (done + 1) / amount - now();
        if (left > 0)
            usleep(left * 1e6);
    }
    while (!strcmp(words[1], "hold"))
        for (size_t done = 0; done < amount; done++, usleep(2000))
            for (size_t at = 0; at < mib; at += page)
                held[done * mib + at] = 1;
    return 0;
}
