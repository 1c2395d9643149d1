#include "runtime/buffer.h"

#include <fmt/format.h>

#include <utility>

namespace ptxbuilder::runtime {

Buffer::Buffer(Device& device, size_t bytes)
    : device_(&device), device_lives_(device.lifetime()), view_{device.allocate(bytes), bytes} {}

Buffer::~Buffer() {
  if (device_ && !device_lives_.expired()) device_->release(view_.address);
}

Buffer::Buffer(Buffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      device_lives_(std::move(other.device_lives_)),
      view_(std::exchange(other.view_, View{})) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(device_lives_, other.device_lives_);
  std::swap(view_, other.view_);
  return *this;
}

View Buffer::all() const {
  if (!device_) throw Error("the Buffer has no memory: allocate it first");
  if (device_lives_.expired())
    throw Error(fmt::format("the Buffer of {} B is used after its Device was destroyed", view_.bytes));
  return view_;
}

Buffer::operator View() const {
  if (!device_)
    throw Error(
        "the Buffer that is passed as an argument has no memory: allocate it, or pass View{} for a null "
        "pointer");
  return all();
}

View Buffer::part(size_t offset, size_t bytes) const {
  const View whole = all();
  if (offset > whole.bytes || bytes > whole.bytes - offset)
    throw Error(fmt::format("bytes {} to {} are not all within the Buffer of {} B", offset, offset + bytes,
                            whole.bytes));
  return {whole.address + offset, bytes};
}

void Buffer::fill(uint8_t value) {
  const View whole = all();
  device_->fill(whole.address, value, whole.bytes);
}

void Buffer::copy_bytes_in(std::span<const std::byte> bytes, size_t offset) {
  View to = part(offset, bytes.size());
  device_->copy_in(to.address, bytes.data(), to.bytes);
}

void Buffer::copy_bytes_out(std::span<std::byte> bytes, size_t offset) const {
  View from = part(offset, bytes.size());
  device_->copy_out(bytes.data(), from.address, from.bytes);
}

size_t Buffer::count_of(size_t element_bytes) const {
  if (view_.bytes % element_bytes != 0)
    throw Error(fmt::format("the Buffer has {} B, which cannot be read as whole elements of {} B",
                            view_.bytes, element_bytes));
  return view_.bytes / element_bytes;
}

}  // namespace ptxbuilder::runtime
