// Checks an S3 endpoint with the AWS SDK for Java v2: synchronous client, asynchronous client with multipart, presigner,
// with the SDK's defaults. Prints "ok NAME" or "FAIL NAME: why" a check; ends with 1 after a failure.
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.S3Configuration;
import software.amazon.awssdk.services.s3.model.ChecksumAlgorithm;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;
import software.amazon.awssdk.services.s3.model.S3Exception;
import software.amazon.awssdk.services.s3.presigner.S3Presigner;

public class Check {
    static boolean failed = false;
    static final URI ENDPOINT = URI.create(System.getenv("SDK_ENDPOINT"));
    static final StaticCredentialsProvider KEYS = StaticCredentialsProvider.create(
        AwsBasicCredentials.create(System.getenv("SDK_ACCESS_KEY"), System.getenv("SDK_SECRET_KEY")));
    static final String KEY = "dir with blank/ä+😀=&.txt";

    static void check(String name, Callable<Object> run) {
        try {
            run.call();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed = true;
            System.out.println("FAIL " + name + ": " + error);
        }
    }

    static void expect(String what, Object got, Object want) {
        if (!want.equals(got)) throw new IllegalStateException(what + " is " + got + ", not " + want);
    }

    static byte[] pattern(int size) {
        byte[] data = new byte[size];
        for (int i = 0; i < size; i++) data[i] = (byte) (i * 7 + i / 251);
        return data;
    }

    static void objects(S3Client s3, String bucket) {
        byte[] body = pattern(70000);

        check("java-put-get", () -> {
            s3.putObject(b -> b.bucket(bucket).key(KEY), RequestBody.fromBytes(body));
            expect("bytes", Arrays.equals(s3.getObjectAsBytes(b -> b.bucket(bucket).key(KEY)).asByteArray(), body), true);
            return null;
        });
        for (ChecksumAlgorithm algorithm : List.of(ChecksumAlgorithm.CRC32_C, ChecksumAlgorithm.SHA1,
                ChecksumAlgorithm.SHA256, ChecksumAlgorithm.CRC64_NVME)) {
            if (algorithm == ChecksumAlgorithm.CRC64_NVME) continue; // needs the SDK's native library
            check("java-checksum-" + algorithm, () -> {
                s3.putObject(b -> b.bucket(bucket).key("sum").checksumAlgorithm(algorithm), RequestBody.fromBytes(body));
                return null;
            });
        }
        check("java-list", () -> {
            boolean found = s3.listObjectsV2Paginator(b -> b.bucket(bucket).maxKeys(1)).contents().stream()
                .anyMatch(object -> object.key().equals(KEY));
            expect("listed", found, true);
            return null;
        });
        check("java-conditional", () -> {
            s3.putObject(b -> b.bucket(bucket).key("lock").ifNoneMatch("*"), RequestBody.empty());
            try {
                s3.putObject(b -> b.bucket(bucket).key("lock").ifNoneMatch("*"), RequestBody.empty());
            } catch (S3Exception error) {
                expect("status", error.statusCode(), 412);
                return null;
            }
            throw new IllegalStateException("the second put was not refused");
        });
        check("java-delete-many", () -> {
            int count = s3.deleteObjects(b -> b.bucket(bucket).delete(d -> d.objects(
                ObjectIdentifier.builder().key("lock").build(), ObjectIdentifier.builder().key("sum").build())))
                .deleted().size();
            expect("deleted", count, 2);
            return null;
        });
    }

    static void large(String bucket) {
        byte[] body = pattern(21 << 20);

        check("java-async-multipart", () -> {
            try (S3AsyncClient s3 = S3AsyncClient.builder().endpointOverride(ENDPOINT).region(Region.US_EAST_1)
                    .credentialsProvider(KEYS).forcePathStyle(true).multipartEnabled(true).build()) {
                s3.putObject(b -> b.bucket(bucket).key("large"), AsyncRequestBody.fromBytes(body)).join();
                byte[] got = s3.getObject(b -> b.bucket(bucket).key("large"), AsyncResponseTransformer.toBytes()).join()
                    .asByteArray();
                expect("bytes", Arrays.equals(got, body), true);
            }
            return null;
        });
    }

    static void presigned(String bucket) {
        check("java-presign", () -> {
            try (S3Presigner presigner = S3Presigner.builder().endpointOverride(ENDPOINT).region(Region.US_EAST_1)
                    .credentialsProvider(KEYS)
                    .serviceConfiguration(S3Configuration.builder().pathStyleAccessEnabled(true).build()).build()) {
                var signed = presigner.presignGetObject(p -> p.signatureDuration(Duration.ofMinutes(1))
                    .getObjectRequest(b -> b.bucket(bucket).key(KEY)));
                HttpURLConnection connection = (HttpURLConnection) signed.url().openConnection();
                try (InputStream in = connection.getInputStream()) {
                    expect("size", in.readAllBytes().length, 70000);
                }
            }
            return null;
        });
    }

    public static void main(String[] arguments) {
        String bucket = "java-" + System.nanoTime();

        try (S3Client s3 = S3Client.builder().endpointOverride(ENDPOINT).region(Region.US_EAST_1)
                .credentialsProvider(KEYS).forcePathStyle(true).build()) {
            check("java-create-bucket", () -> s3.createBucket(b -> b.bucket(bucket)));
            objects(s3, bucket);
            large(bucket);
            presigned(bucket);
        }
        System.exit(failed ? 1 : 0);
    }
}
