// SPDX-License-Identifier: Apache-2.0
//
// FLIGHTSHMEM_CLONES before a function: compiled for several generations of x86-64 (AVX-512, AVX2,
// baseline); the loader picks the one this processor runs. For plain loops that the compiler
// vectorises. Elsewhere, and under sanitizers (their runtime is not up yet when the loader asks),
// there is only the portable version.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FLIGHTSHMEM_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FLIGHTSHMEM_CLONES
#endif
