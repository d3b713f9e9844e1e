#include "state.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define MOST_LINES 4096
#define KEY_BYTES 128

static struct {
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
} lines[MOST_LINES];
static int count;
static int lock = -1;
static pthread_mutex_t one_call = PTHREAD_MUTEX_INITIALIZER;

static const char *path(void) {
    const char *configured = getenv(STATE_VARIABLE);
    if (configured == NULL) {
        fprintf(stderr, "fake library: %s is not set\n", STATE_VARIABLE);
        abort();
    }
    return configured;
}

static void load(void) {
    char line[KEY_BYTES + VALUE_BYTES + 2];
    char name[4096];
    pthread_mutex_lock(&one_call);
    snprintf(name, sizeof name, "%s.lock", path());
    lock = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    flock(lock, LOCK_EX);
    count = 0;
    FILE *file = fopen(path(), "re");
    if (file == NULL)
        return;
    while (count < MOST_LINES && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *space = strchr(line, ' ');
        if (space == NULL)
            continue;
        *space = 0;
        snprintf(lines[count].key, KEY_BYTES, "%.*s", KEY_BYTES - 1, line);
        snprintf(lines[count].value, VALUE_BYTES, "%.*s", VALUE_BYTES - 1, space + 1);
        count++;
    }
    fclose(file);
}

/* In place, not by a new file: file systems write a file that replaces another to the disk at once, which takes long. */
static void store(void) {
    static char text[MOST_LINES * (KEY_BYTES + VALUE_BYTES + 2)];
    size_t length = 0;
    for (int i = 0; i < count; i++)
        length += (size_t)sprintf(text + length, "%s %s\n", lines[i].key, lines[i].value);
    int file = open(path(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0 || pwrite(file, text, length, 0) != (ssize_t)length || ftruncate(file, (off_t)length) != 0)
        abort();
    close(file);
    close(lock);
    lock = -1;
    pthread_mutex_unlock(&one_call);
}

static int find(const char *wanted) {
    for (int i = 0; i < count; i++)
        if (strcmp(lines[i].key, wanted) == 0)
            return i;
    return -1;
}

const char *key(const char *format, ...) {
    static char buffers[4][KEY_BYTES];
    static int next;
    char *buffer = buffers[next++ % 4];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer, KEY_BYTES, format, arguments);
    va_end(arguments);
    return buffer;
}

const char *get(const char *format, ...) {
    char wanted[KEY_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    int at = find(wanted);
    return at < 0 ? NULL : lines[at].value;
}

long long get_number(long long missing, const char *format, ...) {
    char wanted[KEY_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    int at = find(wanted);
    return at < 0 ? missing : strtoll(lines[at].value, NULL, 0);
}

void set(const char *wanted, const char *format, ...) {
    int at = find(wanted);
    if (at < 0) {
        if (count == MOST_LINES)
            abort();
        at = count++;
        snprintf(lines[at].key, KEY_BYTES, "%s", wanted);
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(lines[at].value, VALUE_BYTES, format, arguments);
    va_end(arguments);
}

void drop(const char *wanted) {
    size_t length = strlen(wanted);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int below = strncmp(lines[i].key, wanted, length) == 0 && (lines[i].key[length] == 0 || lines[i].key[length] == '.');
        if (!below)
            lines[kept++] = lines[i];
    }
    count = kept;
}

static int ascending(const void *left, const void *right) {
    return *(const int *)left - *(const int *)right;
}

int numbers_below(const char *prefix, int *numbers, int most) {
    size_t length = strlen(prefix);
    int found = 0;
    for (int i = 0; i < count && found < most; i++) {
        if (strncmp(lines[i].key, prefix, length) != 0)
            continue;
        char *end;
        long number = strtol(lines[i].key + length, &end, 10);
        if (end != lines[i].key + length && *end == 0)
            numbers[found++] = (int)number;
    }
    qsort(numbers, found, sizeof *numbers, ascending);
    return found;
}

/* The fault of this call: of this call of the function, of every call of it, or of every call of it about the card. */
static const char *fault_of(const char *function, int card, long long number) {
    const char *fault = get("fault.%s.%lld", function, number);
    if (fault == NULL)
        fault = get("fault.%s", function);
    if (fault == NULL && card >= 0)
        fault = get("%s.%d.fault.%s", CARD_KEY, card, function);
    if (fault == NULL && card >= 0)
        fault = get("%s.%d.fault", CARD_KEY, card);
    return fault;
}

static void hang_while_scripted(const char *function, int card, long long number) {
    const char *fault;
    do {
        store();
        usleep(5000);
        load();
        fault = fault_of(function, card, number);
    } while (fault != NULL && strcmp(fault, "hang") == 0);
}

int enter(const char *function, int card) {
    load();
    long long number = get_number(0, "calls.%s", function) + 1;
    long long total = get_number(0, "calls") + 1;
    set(key("calls.%s", function), "%lld", number);
    set("calls", "%lld", total);
    if (get_number(-1, "kill") == total) {
        drop("kill");
        store();
        raise(SIGKILL);
    }
    const char *fault = fault_of(function, card, number);
    if (fault == NULL)
        return 0;
    if (strcmp(fault, "hang") == 0) {
        hang_while_scripted(function, card, number);
        return 0;
    }
    return leave(atoi(fault));
}

int leave(int code) {
    int dies = get_number(-1, "kill.after") == get_number(0, "calls");
    if (dies)
        drop("kill");
    store();
    if (dies)
        raise(SIGKILL);
    return code;
}
