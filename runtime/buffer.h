// Device memory that is freed automatically, with typed copies.
#pragma once

#include <ranges>
#include <type_traits>
#include <vector>

#include "runtime/device.h"

namespace ptxbuilder::runtime {

// A range of device memory that another object owns. View{} is a null pointer.
struct View {
  Address address = 0;
  size_t bytes = 0;
};

// Owns one allocation. Copies wait for all work that was queued before. If a buffer outlives its device, its
// memory is already freed, and any use of the buffer throws an Error.
class Buffer {
 public:
  Buffer() = default;  // has no memory
  Buffer(Device& device, size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  // Returns a buffer that contains `values`, a vector, array or span.
  template <std::ranges::contiguous_range Values>
  static Buffer of(Device& device, const Values& values) {
    Buffer buffer(device, std::ranges::size(values) * sizeof(*std::ranges::data(values)));
    buffer.copy_in(values);
    return buffer;
  }

  Address address() const { return device_ ? all().address : 0; }
  size_t bytes() const { return view_.bytes; }

  // Converts to a View, for kernel arguments. Throws an Error if the buffer has no memory. To pass a null
  // pointer, use View{}.
  operator View() const;                         // NOLINT: meant to be implicit
  View part(size_t offset, size_t bytes) const;  // throws an Error unless the part is inside the buffer

  void fill(uint8_t value = 0);  // queued like a launch

  // Copy values to or from the buffer, starting at byte `offset`. Throw an Error if the values exceed the
  // buffer.
  template <std::ranges::contiguous_range Values>
  void copy_in(const Values& values, size_t offset = 0) {
    static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Values>>);
    copy_bytes_in(std::as_bytes(std::span(values)), offset);
  }
  template <std::ranges::contiguous_range Values>
  void copy_out(Values&& values, size_t offset = 0) const {
    static_assert(std::is_trivially_copyable_v<std::ranges::range_value_t<Values>>);
    copy_bytes_out(std::as_writable_bytes(std::span(values)), offset);
  }
  // Returns the contents of the whole buffer. Throws an Error if its size is not a multiple of sizeof(T).
  template <class T>
  std::vector<T> copy_out() const {
    std::vector<T> values(count_of(sizeof(T)));
    copy_out(values);
    return values;
  }

 private:
  View all() const;  // throws an Error if the buffer has no memory, or if its device no longer exists
  void copy_bytes_in(std::span<const std::byte> bytes, size_t offset);
  void copy_bytes_out(std::span<std::byte> bytes, size_t offset) const;
  size_t count_of(size_t element_bytes) const;

  Device* device_ = nullptr;
  std::weak_ptr<const void> device_lives_;
  View view_;
};

}  // namespace ptxbuilder::runtime
