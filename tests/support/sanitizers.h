/// What the compiler checks at run time, said by GCC and by clang in different ways.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ZENFLOW_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define ZENFLOW_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ZENFLOW_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define ZENFLOW_THREAD_SANITIZER 1
#endif
#endif

namespace zenflow::testing {

#if defined(ZENFLOW_ADDRESS_SANITIZER) || defined(ZENFLOW_THREAD_SANITIZER)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace zenflow::testing
