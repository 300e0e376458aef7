/* Stands in for libnvinfer, libnvinfer_plugin and libnvonnxparser, so that NVIDIA's Python bindings can be
   imported and their names read on a machine that has none of them. Every function returns null: nothing
   can be built or run with it. */
#define STUB(name) void *name(void) { return 0; }
STUB(createInferBuilder_INTERNAL)
STUB(createInferRuntime_INTERNAL)
STUB(createInferRefitter_INTERNAL)
STUB(createNvOnnxParser_INTERNAL)
STUB(createNvOnnxParserRefitter_INTERNAL)
STUB(getPluginRegistry)
STUB(getBuilderPluginRegistry)
STUB(getNvOnnxParserVersion)
STUB(initLibNvInferPlugins)
