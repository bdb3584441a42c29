/* Initial values. Element i of a parameter is drawn from Philox4x32-10 with the counter i under a key of seed and path,
 * computed in double and rounded once. So neither the order of creation nor other parameters change it. */
#include <math.h>
#include "base/dtype.h"
#include "base/hash.h"
#include "kernel/copy/copy.h"
#include "nn/model.h"

#define SALT_INIT 0x696e6974u /* "init": this use of Philox shares no counter with others */

/* Two even draws from (0, 1), of 53 bits. */
static void draw(uint64_t key, int64_t i, double u[2])
{
    const uint32_t counter[4] = { (uint32_t)i, (uint32_t)((uint64_t)i >> 32), 0, SALT_INIT };
    const uint32_t k2[2] = { (uint32_t)key, (uint32_t)(key >> 32) };
    uint32_t w[4];
    wfi_copy_portable.philox(counter, k2, w);
    for (int k = 0; k < 2; k++) {
        uint64_t bits = ((uint64_t)w[2 * k] << 32 | w[2 * k + 1]) >> 11;
        u[k] = ((double)bits + 0.5) * 0x1p-53;
    }
}

static double normal(const double u[2]) /* Box and Muller 1958 */
{
    return sqrt(-2 * log(u[0])) * cos(6.283185307179586476925 * u[1]);
}

static double product(wf_dims d, int32_t from)
{
    double n = 1;
    for (int32_t i = from; i < d.n; i++)
        n *= (double)d.d[i];
    return n;
}

static void fill_drawn(uint64_t key, wf_dtype dtype, int64_t n, bool even, double spread, void *data)
{
    double u[2];
    if (dtype == WF_F32)
        for (int64_t i = 0; i < n; i++) {
            draw(key, i, u);
            ((float *)data)[i] = (float)(spread * (even ? 2 * u[0] - 1 : normal(u)));
        }
    else
        for (int64_t i = 0; i < n; i++) {
            draw(key, i, u);
            wfi_dtype_store(dtype, data, i, spread * (even ? 2 * u[0] - 1 : normal(u)));
        }
}

void wfi_init_fill(uint64_t seed, const char *path, wf_dtype dtype, wf_dims dims, const wf_param_opts *o, void *data)
{
    uint64_t key = wfi_hash_str(path, seed);
    double scale = o->scale != 0 ? o->scale : 1;
    double in = o->fan_in > 0 ? (double)o->fan_in : product(dims, 1);
    double out = (dims.n ? (double)dims.d[0] : 1) * product(dims, 2);
    int64_t n = (int64_t)product(dims, 0);
    in = in > 0 ? in : 1;
    switch (o->init) {
    case WF_INIT_ZEROS:
    case WF_INIT_ONES:
        for (int64_t i = 0; i < n; i++)
            wfi_dtype_store(dtype, data, i, o->init == WF_INIT_ONES ? scale : 0);
        return;
    case WF_INIT_NORMAL: fill_drawn(key, dtype, n, false, scale, data); return;
    case WF_INIT_XAVIER_UNIFORM: fill_drawn(key, dtype, n, true, scale * sqrt(6 / (in + out)), data); return;
    case WF_INIT_KAIMING_NORMAL: fill_drawn(key, dtype, n, false, scale * sqrt(2 / in), data); return;
    case WF_INIT_UNIFORM_FAN_IN:
    default: fill_drawn(key, dtype, n, true, scale / sqrt(in), data); return;
    }
}
