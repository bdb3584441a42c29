/* weft.h - everything a program needs. See README.md for the first program, docs/ for the rest. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H
#include "weft/types.h"
#include "weft/ctx.h"
#include "weft/tensor.h"
#include "weft/control.h"
#include "weft/ops.h" /* generated: every operator */
#include "weft/nn.h"
#include "weft/data.h"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#endif
