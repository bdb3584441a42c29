/* fashion_net.h - the network that fashion.c trains and label.c uses. */
#ifndef EXAMPLES_FASHION_NET_H
#define EXAMPLES_FASHION_NET_H
#include <weft/weft.h>

/* x: f32[N,1,28,28] in 0..1 -> logits f32[N,10] */
wf_tensor *fashion_net(wf_model *m, wf_tensor *x);

extern const char *const fashion_classes[10];

#endif
