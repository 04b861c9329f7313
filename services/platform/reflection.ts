// gRPC reflection, so that tools such as grpcurl call a service without its .proto files.
import { createRegistry, toBinary, type DescFile, type DescService } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ConnectRouter } from '@connectrpc/connect';
import { ErrorInfoSchema } from '../../proto/gen/google/rpc/error_details_pb.js';
import { ServerReflection } from '../../proto/gen/grpc/reflection/v1/reflection_pb.js';
import { ServerReflection as ServerReflectionAlpha } from '../../proto/gen/grpc/reflection/v1alpha/reflection_pb.js';

/** Answers reflection of these services, which connect-es has none for; v1 and v1alpha differ only in their package. */
export function serveReflection(router: ConnectRouter, services: DescService[]): void {
  const files = new Map<string, DescFile>();
  const collect = (file: DescFile) => {
    if (files.has(file.proto.name)) return;
    files.set(file.proto.name, file);
    file.dependencies.forEach(collect);
  };
  services.forEach((service) => collect(service.file));
  // No service names them, and without them grpcurl shows the details of a refusal as base64.
  collect(ErrorInfoSchema.file);
  const registry = createRegistry(...files.values());
  const withDependencies = (file: DescFile, seen = new Set<DescFile>()): Uint8Array[] => {
    if (seen.has(file)) return [];
    seen.add(file);
    return [toBinary(FileDescriptorProtoSchema, file.proto), ...file.dependencies.flatMap((each) => withDependencies(each, seen))];
  };
  const ofSymbol = (symbol: string): DescFile | undefined => {
    const found = registry.get(symbol);
    if (found) return found.file;
    // A method is named after its service, a field or enum value after its message.
    const parent = symbol.slice(0, symbol.lastIndexOf('.'));
    return parent !== '' ? registry.get(parent)?.file : undefined;
  };
  for (const service of [ServerReflection, ServerReflectionAlpha]) {
    router.service(service as typeof ServerReflection, {
      async *serverReflectionInfo(requests) {
        for await (const originalRequest of requests) {
          const question = originalRequest.messageRequest;
          const base = { validHost: originalRequest.host, originalRequest };
          const answerFile = (file: DescFile | undefined) =>
            file
              ? { case: 'fileDescriptorResponse' as const, value: { fileDescriptorProto: withDependencies(file) } }
              : { case: 'errorResponse' as const, value: { errorCode: Code.NotFound as number, errorMessage: 'not found' } };
          if (question.case === 'listServices') {
            const named = services.map((each) => ({ name: each.typeName }));
            yield { ...base, messageResponse: { case: 'listServicesResponse', value: { service: named } } };
          } else if (question.case === 'fileByFilename') yield { ...base, messageResponse: answerFile(files.get(question.value)) };
          else if (question.case === 'fileContainingSymbol') yield { ...base, messageResponse: answerFile(ofSymbol(question.value)) };
          else if (question.case === 'allExtensionNumbersOfType') {
            const value = { baseTypeName: question.value, extensionNumber: [] };
            yield { ...base, messageResponse: { case: 'allExtensionNumbersResponse', value } };
          } else yield { ...base, messageResponse: answerFile(undefined) };
        }
      },
    });
  }
}
