/* Conversions of bf16 numbers, for C programs that launch exported kernels. */
#ifndef BF16_H
#define BF16_H

#include "device.h"

static uint16_t to_bf16(double x) { /* truncates; the reference uses the truncated number */
  const float narrow = (float)x;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  return (uint16_t)(bits >> 16);
}
static double of_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}

static uint16_t* filled(size_t count) {
  uint16_t* all = (uint16_t*)malloc(count * sizeof *all);
  size_t i;
  for (i = 0; i < count; ++i) all[i] = to_bf16(fresh());
  return all;
}

#endif
