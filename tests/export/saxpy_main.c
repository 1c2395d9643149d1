/* Launches an exported saxpy, and compares every element. */
#include "device.h"
#include "saxpy.h"

int main(int argc, char** argv) {
  enum { COUNT = 1000 };
  static float x[COUNT], y[COUNT], got[COUNT];
  const float alpha = 0.75f;
  float *on_x, *on_y;
  int i;
  must(argc == 2, "saxpy_main SEED");
  must(!saxpy_load(), saxpy_error());
  open_device();
  srand((unsigned)atoi(argv[1]));
  for (i = 0; i < COUNT; ++i) x[i] = (float)fresh(), y[i] = (float)fresh();
  on_x = (float*)upload(x, sizeof x);
  on_y = (float*)upload(y, sizeof y);
  must(!saxpy_launch(on_x, on_y, alpha, COUNT, NULL, NULL), saxpy_error());
  download(got, on_y, sizeof got);
  for (i = 0; i < COUNT; ++i) {
    const double wanted = (double)alpha * x[i] + y[i], error = got[i] - wanted;
    must(error < 1e-6 && error > -1e-6, "an element is wrong");
  }
  printf("%s: %d elements are right\n", last_kernel(), COUNT);
  return 0;
}
