// SPDX-License-Identifier: Apache-2.0
//
// The few words our C++ tests need: FS_TEST registers, CHECK* end the program with file and line.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace flightshmem::testing {

struct Test {
  std::string name;
  std::function<void()> run;
};

inline std::vector<Test>& AllTests() {
  static std::vector<Test> tests;
  return tests;
}

struct Registered {
  Registered(std::string name, std::function<void()> run) {
    AllTests().push_back({std::move(name), std::move(run)});
  }
};

[[noreturn]] inline void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::abort();
}

inline const arrow::Status& StatusOf(const arrow::Status& status) { return status; }
template <typename T>
const arrow::Status& StatusOf(const arrow::Result<T>& result) {
  return result.status();
}

}  // namespace flightshmem::testing

#define FS_TEST(name)                                                           \
  static void name();                                                           \
  static const flightshmem::testing::Registered name##_registered(#name, name); \
  static void name()

#define CHECK(condition) \
  if (!(condition)) flightshmem::testing::Fail(__FILE__, __LINE__, "not so: " #condition)

#define CHECK_OK(expression)                                                             \
  if (const auto& checked = (expression); !flightshmem::testing::StatusOf(checked).ok()) \
  flightshmem::testing::Fail(__FILE__, __LINE__, flightshmem::testing::StatusOf(checked).ToString())

// The value of a Result, or the end of the program.
#define VALUE(expression)                                                          \
  [&] {                                                                            \
    auto checked = (expression);                                                   \
    if (!checked.ok())                                                             \
      flightshmem::testing::Fail(__FILE__, __LINE__, checked.status().ToString()); \
    return std::move(checked).ValueUnsafe();                                       \
  }()
