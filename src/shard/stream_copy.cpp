// SPDX-License-Identifier: Apache-2.0
#include "shard/stream_copy.h"

#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace flightshmem {

#if defined(__SSE2__)
namespace {

// What is smaller may still be in a cache when it is read.
constexpr size_t kLarge = size_t{4} << 20;
constexpr size_t kLine = 64;

void StreamLine(std::byte* to, const std::byte* from) {
  const auto* in = reinterpret_cast<const __m128i*>(from);
  auto* out = reinterpret_cast<__m128i*>(to);
  const __m128i a = _mm_loadu_si128(in);
  const __m128i b = _mm_loadu_si128(in + 1);
  const __m128i c = _mm_loadu_si128(in + 2);
  const __m128i d = _mm_loadu_si128(in + 3);
  _mm_stream_si128(out, a);
  _mm_stream_si128(out + 1, b);
  _mm_stream_si128(out + 2, c);
  _mm_stream_si128(out + 3, d);
}

}  // namespace

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  size_t done = 0;
  if (bytes >= kLarge) {
    for (; done + kLine <= bytes; done += kLine) StreamLine(to + done, from + done);
    _mm_sfence();  // streaming stores are not ordered with the flags that tell others of them
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

#else

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

#endif

}  // namespace flightshmem
