// Compiles the functions that fmt's headers declare. With fmt::fmt-header-only, these functions would be
// compiled again in every file, at a cost of about 2 s per file with g++ 12. With fmt::fmt, every program
// that links this project's archives would need a shared library.
#include <fmt/format.h>
#undef FMT_FUNC
#define FMT_FUNC [[gnu::weak]]  // weak, so that a program may also link fmt
#include <fmt/format-inl.h>

// The following code corresponds to src/format.cc of fmt.
FMT_BEGIN_NAMESPACE
namespace detail {
template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale& loc);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
}  // namespace detail
FMT_END_NAMESPACE
