// Tests the functions of a newer glibc that are linked into shipped libraries. Exceptions are thrown through
// both implementations of _dl_find_object(): glibc's, and the search over all loaded objects. This test is
// linked like the shipped libraries.
#include <dlfcn.h>
#include <stdlib.h>

#include <cstdio>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/glibc/dl_find_object.h"

namespace {

int failures = 0, asked = 0;

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::printf("%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                          \
    }                                                                      \
  } while (0)

struct Counter {
  int& count;
  ~Counter() { ++count; }
};

[[gnu::noinline]] void fall(int depth, int& unwound) {
  const Counter counter{unwound};
  if (depth == 0) throw std::runtime_error("at the bottom");
  fall(depth - 1, unwound);
  std::puts("never");  // prevents a tail call
}

int depth_unwound() {
  int unwound = 0;
  try {
    fall(50, unwound);
  } catch (const std::runtime_error& e) {
    return e.what() == std::string("at the bottom") ? unwound : -1;
  }
  return -2;
}

void check_throwing() {
  CHECK(depth_unwound() == 51);
  try {
    qsort(std::vector{2, 1}.data(), 2, sizeof(int), [](const void*, const void*) -> int { throw 42; });
    CHECK(false);  // the exception passes through libc's code
  } catch (int number) {
    CHECK(number == 42);
  }
  std::vector<int> unwound(4);
  std::vector<std::thread> threads;
  for (int& one : unwound)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) one += depth_unwound();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(unwound == std::vector(4, 5100));
}

int counted(void* address, dl_find_object* found);
int (*glibcs)(void*, dl_find_object*);

int counted(void* address, dl_find_object* found) {
  ++asked;
  return glibcs(address, found);
}

// Checks that both implementations return the same result for an address.
void check_same(void* address) {
  dl_find_object by_glibc = {}, searched = {};
  ptxbuilder_glibc_find_object = glibcs;
  const int expected = _dl_find_object(address, &by_glibc);
  ptxbuilder_glibc_find_object = nullptr;
  CHECK(_dl_find_object(address, &searched) == expected);
  if (expected != 0) return;
  CHECK(searched.dlfo_eh_frame == by_glibc.dlfo_eh_frame);
  CHECK(searched.dlfo_map_start <= address && address < searched.dlfo_map_end);
}

}  // namespace

int main() {
  glibcs = ptxbuilder_glibc_find_object;
  CHECK((glibcs != nullptr) == (dlsym(RTLD_DEFAULT, "_dl_find_object") != nullptr));
  CHECK(glibcs != &_dl_find_object);
  if (glibcs) {
    ptxbuilder_glibc_find_object = counted;
    CHECK(depth_unwound() == 51);
    CHECK(asked > 50);  // the unwinder calls this function, and no other
    ptxbuilder_glibc_find_object = glibcs;
    check_throwing();
    int on_stack = 0;
    for (void* address :
         {reinterpret_cast<void*>(&depth_unwound), reinterpret_cast<void*>(&qsort),
          dlsym(RTLD_DEFAULT, "dlsym"), dlsym(RTLD_DEFAULT, "_dl_find_object"), static_cast<void*>(&on_stack),
          static_cast<void*>(nullptr), reinterpret_cast<void*>(8)})
      check_same(address);
  } else {
    std::puts("glibc has no _dl_find_object: the search alone is tested");
  }
  ptxbuilder_glibc_find_object = nullptr;
  check_throwing();

  std::set<uint32_t> drawn;
  std::random_device by_name("arc4random"), by_default;
  for (int i = 0; i < 1000; ++i) drawn.insert(by_name()), drawn.insert(by_default());
  CHECK(drawn.size() > 1990);  // in about one run in two thousand, a number is drawn twice
  Dl_info info;
  CHECK(dladdr(reinterpret_cast<void*>(&arc4random), &info) != 0 && info.dli_fname &&
        std::string(info.dli_fname).find("libc.so") == std::string::npos);
  std::printf("%d failures\n", failures);
  return failures != 0;
}
