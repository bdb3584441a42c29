#include "letters.h"
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool letters_fetch(const char *program, const char *path)
{
    char name[] = "bible", flag[] = "-f", range[] = "Gen1:1-Rev22:21";
    char *args[] = { name, flag, range, NULL };
    posix_spawn_file_actions_t to;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&to);
    posix_spawn_file_actions_addopen(&to, 1, path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool ok = posix_spawnp(&pid, name, &to, NULL, args, environ) == 0 && waitpid(pid, &status, 0) == pid && status == 0;
    posix_spawn_file_actions_destroy(&to);
    struct stat st;
    if (ok && stat(path, &st) == 0 && st.st_size > 1000000)
        return true;
    fprintf(stderr, "%s: the command bible gave no text (Debian: bible-kjv); give a file with --text\n", program);
    unlink(path);
    return false;
}

int letters_draw(const float *logits, double heat, uint64_t *state)
{
    double p[SYMBOLS], top = logits[0], sum = 0;
    for (int i = 1; i < SYMBOLS; i++)
        top = logits[i] > top ? logits[i] : top;
    for (int i = 0; i < SYMBOLS; i++)
        sum += p[i] = exp(((double)logits[i] - top) / heat);
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    double at = (double)(*state >> 11) * 0x1p-53 * sum;
    for (int i = 0; i < SYMBOLS; i++)
        if ((at -= p[i]) < 0)
            return i;
    return ' ';
}

void letters_put(int byte)
{
    putchar((byte >= 32 && byte < 127) || byte == '\n' ? byte : '?');
}
