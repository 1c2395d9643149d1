// Implements arc4random(3) with getrandom(2) for glibc before 2.36.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t bits;
  // A read of up to 256 bytes is never partial. A signal can interrupt it only before the kernel has gathered
  // entropy.
  while (getrandom(&bits, sizeof bits, 0) != sizeof bits)
    if (errno != EINTR) abort();  // like glibc's function, which cannot report failure
  return bits;
}
