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
#define MOST_BYTES (MOST_LINES * (KEY_BYTES + VALUE_BYTES + 2))

static struct {
    char key[KEY_BYTES];
    char value[VALUE_BYTES];
} lines[MOST_LINES];
/* Of the keys: a call asks for many, and each line is on another page of the processor's cache. */
static unsigned hashes[MOST_LINES];
static int count;
/* What the lines were read from or written to: most of the time, nobody has changed the file since. */
static char text[MOST_BYTES + 1];
static size_t text_length;
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

static unsigned hash(const char *name) {
    unsigned found = 5381;
    while (*name)
        found = found * 33 ^ (unsigned char)*name++;
    return found;
}

static void keep(char *room, size_t size, const char *from, size_t length) {
    length = length < size ? length : size - 1;
    memcpy(room, from, length);
    room[length] = 0;
}

static void parse(void) {
    count = 0;
    for (char *line = text; *line && count < MOST_LINES;) {
        size_t length = strcspn(line, "\n");
        char *end = line + length, *space = memchr(line, ' ', length);
        if (space != NULL) {
            keep(lines[count].key, KEY_BYTES, line, (size_t)(space - line));
            keep(lines[count].value, VALUE_BYTES, space + 1, (size_t)(end - space - 1));
            hashes[count] = hash(lines[count].key);
            count++;
        }
        line = *end ? end + 1 : end;
    }
}

static void load(void) {
    static char read_now[MOST_BYTES + 1];
    char name[4096];
    pthread_mutex_lock(&one_call);
    snprintf(name, sizeof name, "%s.lock", path());
    lock = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    flock(lock, LOCK_EX);
    int file = open(path(), O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, read_now, MOST_BYTES);
    if (length < 0)
        abort();
    if (file >= 0)
        close(file);
    if ((size_t)length == text_length && memcmp(read_now, text, text_length) == 0)
        return;
    text_length = (size_t)length;
    memcpy(text, read_now, text_length);
    text[text_length] = 0;
    parse();
}

/* In place, not by a new file: file systems write a file that replaces another to the disk at once, which takes long. */
static void store(void) {
    char *end = text;
    for (int i = 0; i < count; i++) {
        end = stpcpy(end, lines[i].key);
        *end++ = ' ';
        end = stpcpy(end, lines[i].value);
        *end++ = '\n';
    }
    *end = 0;
    text_length = (size_t)(end - text);
    int file = open(path(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0 || pwrite(file, text, text_length, 0) != (ssize_t)text_length || ftruncate(file, (off_t)text_length) != 0)
        abort();
    close(file);
    close(lock);
    lock = -1;
    pthread_mutex_unlock(&one_call);
}

static int find(const char *wanted) {
    unsigned own = hash(wanted);
    for (int i = 0; i < count; i++)
        if (hashes[i] == own && strcmp(lines[i].key, wanted) == 0)
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
        hashes[at] = hash(lines[at].key);
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
        if (!below) {
            hashes[kept] = hashes[i];
            lines[kept++] = lines[i];
        }
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
