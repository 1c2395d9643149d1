/* Opens a device with the installed library from C, and reads the message of an error. */
#include <ptxbuilder/ptxb.h>
#include <stdio.h>

int main(void) {
  ptxb_device* device = NULL;
  ptxb_matmul product = PTXB_MATMUL_INIT;
  size_t bytes = 0;
  if (ptxb_open("emulator", &device) != PTXB_OK) return 1;
  if (ptxb_matmul_workspace(device, &product, &bytes) != PTXB_INVALID_ARGUMENT) return 2;
  printf("from C: version %d, \"%s\"\n", ptxb_version(), ptxb_error());
  ptxb_close(device);
  return 0;
}
