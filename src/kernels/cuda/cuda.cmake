# The kernels of NVIDIA GPUs, a part of quire_kernels. CMake 3.25 knows no C++20 for nvcc 13, so that nvcc
# is called by name.
find_package(CUDAToolkit 13.0 REQUIRED)

file(GLOB_RECURSE cuda_hosts CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
set(cuda_tests ${cuda_hosts})
list(FILTER cuda_hosts EXCLUDE REGEX "_test\\.cpp$")
list(FILTER cuda_tests INCLUDE REGEX "_test\\.cpp$")
file(GLOB_RECURSE cuda_kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cu)

set(objects "")
foreach(source IN LISTS cuda_kernels)
  cmake_path(GET source STEM name)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda_${name}.o)
  # sm_90a: of Hopper alone, for its warpgroup matrix products.
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 --expt-relaxed-constexpr -Xfatbin=-compress-all
            -gencode=arch=compute_90a,code=sm_90a -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler=-fPIC,-Wall,-Wextra,-Werror
            -I${PROJECT_SOURCE_DIR}/src -MD -MF ${object}.d -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "Compiling ${name}.cu" VERBATIM)
  list(APPEND objects ${object})
endforeach()

target_sources(quire_kernels PRIVATE ${cuda_hosts} ${objects})
set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
# One unit of the library, which its other folders do not share.
set_source_files_properties(${cuda_hosts} PROPERTIES UNITY_GROUP cuda)
target_include_directories(quire_kernels SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(quire_kernels PUBLIC CUDA::cudart_static)

if(QUIRE_BUILD_TESTS AND cuda_tests)
  add_executable(cuda_test ${cuda_tests})
  quire_compile_by_folder(cuda_test ${cuda_tests})
  target_link_libraries(cuda_test PRIVATE quire_kernels GTest::gmock GTest::gtest_main)
  quire_test_program(cuda_test COMPUTES)
  # Skipped where there is no GPU.
  add_test(NAME cuda COMMAND cuda_test --gtest_brief=1)
  set_tests_properties(cuda PROPERTIES TIMEOUT 900)
endif()
