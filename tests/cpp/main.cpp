// SPDX-License-Identifier: Apache-2.0
// Runs all tests, or those whose names contain the argument.
#include <cstdio>
#include <string>

#include "check.h"

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  int ran = 0;
  for (const auto& test : flightshmem::testing::AllTests()) {
    if (test.name.find(wanted) == std::string::npos) continue;
    std::printf("%s\n", test.name.c_str());
    std::fflush(stdout);
    test.run();
    ++ran;
  }
  std::printf("%d passed\n", ran);
  return ran > 0 ? 0 : 1;
}
