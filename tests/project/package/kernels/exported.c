/* Exports two kernels as C, one of the project and one of its user. Without a driver, they report this. */
#include <stdio.h>

#include "saxpy_c.h"
#include "scale_c.h"

int main(void) {
  const int status = saxpy_c_load();
  printf("saxpy: %d %s\n", status, saxpy_c_error());
  printf("scale: %s\n", scale_c_load() == status ? "the same" : scale_c_error());
  return 0;
}
