#include "ptxbuilder/tile/check.h"

#include <fmt/format.h>

#include "ptxbuilder/ir/instruction.h"
#include "ptxbuilder/tile/report.h"

namespace ptxbuilder {
namespace {

using namespace report_format;
using detail::MessageText;
using detail::MessageValue;
using SiteKind = ReportFormat::Site::Kind;

// The number of messages that fit in the space of the innermost scope, or 0 if no scope is open.
constinit thread_local uint32_t scope_messages = 0;

// Throws Error unless the text has a {} for each value, and no other braces.
void check_text(std::string_view what, std::string_view text, size_t values) {
  size_t holes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '{' && text[i] != '}') continue;
    if (text.substr(i, 2) != "{}")
      throw Error(fmt::format("{}: \"{}\" has a brace at {} that is not part of a {{}}", what, text, i));
    ++holes, ++i;
  }
  if (holes != values)
    throw Error(fmt::format("{}: \"{}\" has {} {{}}, but {} values were given", what, text, holes, values));
  if (values > kMostValues)
    throw Error(
        fmt::format("{}: {} values were given, but a message has at most {}", what, values, kMostValues));
}

u64 bits_of(const MessageValue& v) {
  const auto as = [&](Class from, Class to) { return detail::convert(from, to, v.value.handle()); };
  switch (v.type) {
    case 'u':
      return u64(as(Class::u32, Class::u64));
    case 's':
      return u64(as(Class::s32, Class::s64));
    case 'f':
      return u64(u32(detail::bit_cast(Class::u32, v.value.handle())));
    case 'F':
      return u64(detail::bit_cast(Class::u64, v.value.handle()));
    case 'p':
      return select(pred(v.value.handle()), u64(1), u64(0));
    case 'x':
      return u64(as(Class::gmem, Class::u64));
    case 'X':
      return u64(u32(as(Class::smem, Class::u32)));
    default:
      return u64(v.value.handle());
  }
}

// Emits code that makes each thread reserve and write a message. The site is written last, because it marks
// the message as complete.
void write_message(const detail::Reporting& report, uint32_t site, const std::vector<MessageValue>& values) {
  const gmem memory = report.memory();
  const u32 index =
      instruction<"atom.relaxed.gpu.global.add.u32">(memory + uint64_t{offsetof(ReportHeader, messages)}, 1);
  if_(index < report.format().messages, [&] {
    const gmem to = memory + (u64(index) * kMessageBytes + kHeaderBytes);
    for (size_t i = 0; i < values.size(); ++i)
      instruction<"st.global.u64">(to + uint64_t{offsetof(ReportedMessage, values) + 8 * i},
                                   bits_of(values[i]));
    const u32 cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
    instruction<"st.global.v4.u32">(to, {u32(site), cta, tid_x(), u32(0)});
    instruction<"fence.acq_rel.sys">();
  });
}

// Returns the kernel's Reporting, or null if the kernel has no checks.
detail::Reporting* checking() {
  detail::Reporting* const report = detail::reporting();
  return report && report->checks() ? report : nullptr;
}

std::string types_of(const std::vector<MessageValue>& values) {
  std::string types;
  for (const MessageValue& v : values) types += v.type;
  return types;
}

}  // namespace

ChecksScope::ChecksScope(uint32_t messages, Where where) : outer_(scope_messages) {
  const CallersLine line(where);
  if (messages < 1 || messages > kMostMessages)
    throw Error(fmt::format("ChecksScope: room for {} messages was requested, but the number must be 1 to {}",
                            messages, kMostMessages));
  scope_messages = messages;
}
ChecksScope::~ChecksScope() { scope_messages = outer_; }
uint32_t ChecksScope::messages() { return scope_messages; }

namespace detail {

void check(pred holds, const MessageText& text, std::vector<MessageValue> values) {
  const AtLine line(text.where);
  check_text("check", text.text, values.size());
  Builder::current().check_current();
  Reporting* const report = checking();
  if (!report) return;
  const uint32_t site = report->site(SiteKind::check, std::string(text.text), types_of(values));
  if_(!holds, [&] { write_message(*report, site, values); });
}

void print(const MessageText& text, std::vector<MessageValue> values) {
  const AtLine line(text.where);
  check_text("print", text.text, values.size());
  Builder::current().check_current();
  Reporting* const report = checking();
  if (report)
    write_message(*report, report->site(SiteKind::print, std::string(text.text), types_of(values)), values);
}

bool prints() { return checking() != nullptr; }

void print_elements(const MessageText& text, char type, int count, const std::function<u64(int)>& make) {
  const AtLine line(text.where);
  Builder::current().check_current();
  Reporting* const report = checking();
  if (!report) return;
  const uint32_t site = report->site(SiteKind::tile, std::string(text.text), std::string(1, type));
  for (int first = 0; first < count; first += static_cast<int>(kMostValues)) {
    std::vector<MessageValue> values;
    for (int i = 0; i < static_cast<int>(kMostValues); ++i)
      values.emplace_back(first + i < count ? make(first + i) : u64(0));
    write_message(*report, site, values);
  }
}

}  // namespace detail

void check_finite(f32 value, Where where) {
  if (const AtLine line(where); !checking()) return;
  const u32 exponent = bit_cast<u32>(value) & 0x7f800000u;
  check(exponent != 0x7f800000u, {"the value {} is not finite", where}, value);
}

void check_range(f32 value, float least, float greatest, Where where) {
  const AtLine line(where);
  if (!(least <= greatest))
    throw Error(
        fmt::format("check_range: {} to {} is not a range, since the lower limit must not exceed the upper",
                    least, greatest));
  if (!checking()) return;
  check((value >= least) & (value <= greatest), {"the value {} is not in the range {} to {}", where}, value,
        f32(least), f32(greatest));
}

}  // namespace ptxbuilder
