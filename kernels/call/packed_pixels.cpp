#include "kernels/call/packed_pixels.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/ir/math.h"
#include "ptxbuilder/tile/parameters.h"

namespace ptxbuilder::kernels {
namespace {

constexpr uint32_t kPackingThreads = 256;
constexpr int kPackingCtas = 8;  // CTAs per SM

// Stores 8 or 16 bytes at once (PTX ISA, st).
void store_words(gmem at, const std::vector<u32>& words) {
  if (words.size() == 2)
    ptx("st.global.v2.u32 [{at:gmem}], {{{a:u32}, {b:u32}}};",
        {{"at", at}, {"a", words[0]}, {"b", words[1]}});
  else
    ptx("st.global.v4.u32 [{at:gmem}], {{{a:u32}, {b:u32}, {c:u32}, {d:u32}}};",
        {{"at", at}, {"a", words[0]}, {"b", words[1]}, {"c", words[2]}, {"d", words[3]}});
}

}  // namespace

Kernel packed_pixels(int channels, int packed, int together) {
  Kernel k(fmt::format("packed_pixels_{}_{}_{}", channels, packed, together));
  Parameters p;
  p.add("from", Parameter::Kind::pointer, DType::u16, "images, of any type of 16 bits");
  p.add("to", Parameter::Kind::pointer, DType::u16, "where they are copied to");
  for (const auto& [name, meaning] : {std::pair{"width", "pixels of a line"},
                                      {"lines", "lines of an image"},
                                      {"before", "pixels of zeros before a line of the copy"},
                                      {"packed_width", "pixels of a line of the copy"},
                                      {"above", "lines of zeros before an image of the copy"},
                                      {"packed_lines", "lines of an image of the copy"},
                                      {"pixels", "total number of pixels of the copy"}})
    p.add(name, Parameter::Kind::scalar, DType::u32, meaning);
  for (const char* name : {"pixel", "line", "image"})
    p.add(name, Parameter::Kind::scalar, DType::u64, "elements from one to the next");
  p.declare(k, Where::here());
  k.threads(kPackingThreads);
  k.overlaps();
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  const auto each = static_cast<uint32_t>(together);
  const u32 width = p.get<u32>("packed_width"), rows = p.get<u32>("packed_lines") / each;
  const gmem to(p.get<gptr<u16>>("to"));
  for_(ctaid_x() * kPackingThreads + tid_x(), p.get<u32>("pixels"), nctaid_x() * kPackingThreads, [&](u32 i) {
    const u32 place = i / each, row = place / width, image = row / rows;
    // If the pixel or line precedes the image, its number wraps around, and so exceeds the numbers inside the
    // image.
    const u32 column = place - row * width - p.get<u32>("before"),
              line = (row - image * rows) * each + (i - place * each) - p.get<u32>("above");
    const pred inside = (column < p.get<u32>("width")) & (line < p.get<u32>("lines"));
    const u64 element = u64(image) * p.get<u64>("image") +
                        u64(select(inside, line, u32(0))) * p.get<u64>("line") +
                        u64(select(inside, column, u32(0))) * p.get<u64>("pixel");
    const gptr<u16> pixel = p.get<gptr<u16>>("from") + element;
    std::vector<u32> words(static_cast<size_t>(packed / 2), u32(0));
    for (int c = 0; c < channels; ++c) {
      const u32 value = select(inside, u32(u16(pixel[u32(static_cast<uint32_t>(c))])), u32(0));
      u32& word = words[static_cast<size_t>(c / 2)];
      word = c % 2 == 0 ? value : word | (value << 16);
    }
    store_words(to + u64(i) * static_cast<uint64_t>(2 * packed), words);
  });
  return k;
}

PixelPacker::PixelPacker(runtime::Device& device, const LoadOptions& options)
    : device_(device),
      compiler_(compiler_for(device, options)),
      multiprocessors_(device.properties().multiprocessors) {}

runtime::LoadedKernel& PixelPacker::kernel(const PackedPixels& copy) {
  const std::lock_guard lock(mutex_);
  auto& kernel = kernels_[{copy.channels, copy.packed, copy.together}];
  if (!kernel)
    kernel = std::make_unique<runtime::LoadedKernel>(
        load(device_, compiler_, packed_pixels(copy.channels, copy.packed, copy.together)));
  return *kernel;
}

void PixelPacker::operator()(const PackedPixels& copy, runtime::Stream stream) {
  if (copy.pixels() >= int64_t{1} << 31)
    throw Error(fmt::format("copy of {} pixels: at most 2^31 - 1 can be copied at once", copy.pixels()));
  const auto number = [](int64_t value) { return runtime::scalar(static_cast<uint32_t>(value)); };
  const auto stride = [](int64_t value) { return runtime::scalar(static_cast<uint64_t>(value)); };
  const int64_t blocks = (copy.pixels() + kPackingThreads - 1) / kPackingThreads;
  kernel(copy).launch(
      {.grid = {static_cast<uint32_t>(std::min(blocks, int64_t{kPackingCtas} * multiprocessors_))},
       .programmatic_dependent_launch = true,
       .stream = stream},
      {runtime::pointer(copy.from, DType::u16), runtime::pointer(copy.to, DType::u16), number(copy.width),
       number(copy.lines), number(copy.before), number(copy.packed_width), number(copy.above),
       number(copy.packed_lines), number(copy.pixels()), stride(copy.pixel), stride(copy.line),
       stride(copy.image)});
}

}  // namespace ptxbuilder::kernels
