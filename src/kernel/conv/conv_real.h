/* conv_real.h - all of the computing code for one type T, in the order in which it builds up. */
#include "kernel/conv/conv_simd.h"
#include "kernel/conv/conv_span.h"
#include "kernel/conv/conv_tile.h"
#include "kernel/conv/conv_pack.h"
#include "kernel/conv/conv_geo.h"
#include "kernel/conv/conv_depth.h"
#include "kernel/conv/conv_forward.h"
#include "kernel/conv/conv_weight.h"
