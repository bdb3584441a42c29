/* The loops of roof.c over memory for one register width; included once for each, so there is no guard.
 *
 * Needs ISA, NAME, LANES, VEC, LOAD, STORE, PAST, ADD, FIRST, and takes them away again. Every iteration moves 64 bytes
 * of each array; `ahead` asks for the line that is needed AHEAD floats later, `past` writes past the caches. */

#define LINE (16 / LANES)

ISA WFB_INLINE void NAME(reading)(const part *p, bool ahead)
{
    VEC s[LINE][4] = { 0 };
    for (size_t i = 0; i < p->n; i += 64)
        for (size_t j = 0; j < 4; j++) {
            if (ahead)
                _mm_prefetch((const char *)(p->x + i + 16 * j + AHEAD), _MM_HINT_T0);
            for (size_t k = 0; k < LINE; k++)
                s[k][j] = ADD(s[k][j], LOAD(p->x + i + 16 * j + LANES * k));
        }
    for (size_t k = 0; k < LINE; k++)
        s[0][0] = ADD(s[0][0], ADD(ADD(s[k][0], s[k][1]), ADD(s[k][2], s[k][3])));
    p->out[0] = FIRST(s[0][0]);
}

ISA WFB_INLINE void NAME(streaming)(const part *p, bool three, bool ahead, bool past)
{
    for (size_t i = 0; i < p->n; i += 16) {
        if (ahead) {
            _mm_prefetch((const char *)(p->x + i + AHEAD), _MM_HINT_T0);
            if (three) {
                _mm_prefetch((const char *)(p->y + i + AHEAD), _MM_HINT_T0);
                _mm_prefetch((const char *)(p->z + i + AHEAD), _MM_HINT_T0);
            }
        }
        for (size_t j = i; j < i + 16; j += LANES) {
            VEC v = LOAD(p->x + j);
            if (three)
                v = ADD(ADD(v, LOAD(p->y + j)), LOAD(p->z + j));
            if (past)
                PAST(p->out + j, v);
            else
                STORE(p->out + j, v);
        }
    }
    _mm_sfence();
}

#define READING(name, ahead)                                                                                           \
    ISA static void NAME(name)(const part *p)                                                                          \
    {                                                                                                                  \
        NAME(reading)(p, ahead);                                                                                       \
    }
#define STREAMING(name, three, ahead, past)                                                                            \
    ISA static void NAME(name)(const part *p)                                                                          \
    {                                                                                                                  \
        NAME(streaming)(p, three, ahead, past);                                                                        \
    }

READING(read_plain, false)
READING(read_ahead, true)
STREAMING(s31_plain, true, false, false)
STREAMING(s31_ahead, true, true, false)
STREAMING(s31_past, true, false, true)
STREAMING(s31_past_ahead, true, true, true)
STREAMING(s11_plain, false, false, false)
STREAMING(s11_ahead, false, true, false)
STREAMING(s11_past, false, false, true)
STREAMING(s11_past_ahead, false, true, true)

#undef READING
#undef STREAMING
#undef LINE
#undef ISA
#undef NAME
#undef LANES
#undef VEC
#undef LOAD
#undef STORE
#undef PAST
#undef ADD
#undef FIRST
