/* The state of a fake library: a text file of lines "key value", read and written whole by every call, under a lock.
 *
 * The file survives the process that loaded the library, as a driver does. Python tests write and read it with
 * tests/fakes/state.py, where the keys are listed that every library has. */
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#define VALUE_BYTES 256

/* Of each library: the environment variable with the path of the file, and what the keys of a card begin with. */
extern const char *const STATE_VARIABLE;
extern const char *const CARD_KEY;

/* Begins a call: locks and reads the state, counts the call, and carries out the faults that the state has for it.
 * Returns the error code that the call must return at once, or 0; then `leave` must end the call. `card` is -1 for a
 * call that is about no card. */
int enter(const char *function, int card);

/* Begins a call about a card, and returns from it if a fault says so. */
#define ENTER(card) \
    do { \
        int fault = enter(__func__, card); \
        if (fault) \
            return fault; \
    } while (0)

/* Ends a call: writes the state and unlocks it. Returns `code`. */
int leave(int code);

/* The value of a key, or NULL. Valid until the state is changed. */
const char *get(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The value of a key as a number, or `missing`. */
long long get_number(long long missing, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Sets a key to a text; the key is in `key`. */
void set(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Removes a key and those below it ("key.*"). */
void drop(const char *key);

/* A key from its parts; valid until the fourth call after this one. */
const char *key(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last parts of all keys "prefix<number>", in ascending order; returns how many there are, at most `most`. */
int numbers_below(const char *prefix, int *numbers, int most);

#endif
