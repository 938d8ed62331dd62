// Checks an S3 endpoint with the AWS SDK for Go v2 and with minio-go: what applications do, with the SDKs' defaults.
// Prints "ok NAME" or "FAIL NAME: why" a check; ends with 1 after a failure.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

var (
	failed   bool
	ctx      = context.Background()
	endpoint = os.Getenv("SDK_ENDPOINT")
	access   = os.Getenv("SDK_ACCESS_KEY")
	secret   = os.Getenv("SDK_SECRET_KEY")
)

func check(name string, run func() error) {
	if err := run(); err != nil {
		failed = true
		fmt.Printf("FAIL %s: %v\n", name, err)
		return
	}
	fmt.Printf("ok %s\n", name)
}

func expect(what string, got, want any) error {
	if got != want {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i/251)
	}
	return data
}

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return fmt.Sprint(err)
}

func awsObjects(client *s3.Client, bucket string) {
	key := "dir with blank/ä+😀=&.txt"
	body := pattern(70000)
	check("go-put-get", func() error {
		put, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body),
			Metadata: map[string]string{"color": "blue"}, ContentType: aws.String("text/plain")})
		if err != nil {
			return err
		}
		if put.ChecksumCRC32 == nil {
			return errors.New("no checksum came back")
		}
		get, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return err
		}
		defer get.Body.Close()
		got, err := io.ReadAll(get.Body)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, body) {
			return errors.New("other bytes")
		}
		return expect("metadata", get.Metadata["color"], "blue")
	})
	check("go-list", func() error {
		pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &bucket, MaxKeys: aws.Int32(1)})
		found := false
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, object := range page.Contents {
				found = found || *object.Key == key
			}
		}
		return expect("the key is listed", found, true)
	})
	check("go-conditional", func() error {
		input := s3.PutObjectInput{Bucket: &bucket, Key: aws.String("lock"), IfNoneMatch: aws.String("*")}
		if _, err := client.PutObject(ctx, &input); err != nil {
			return err
		}
		_, err := client.PutObject(ctx, &input)
		return expect("second put", code(err), "PreconditionFailed")
	})
	check("go-presign", func() error {
		signed, err := s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
		if err != nil {
			return err
		}
		reply, err := http.Get(signed.URL)
		if err != nil {
			return err
		}
		defer reply.Body.Close()
		got, _ := io.ReadAll(reply.Body)
		return expect("bytes", bytes.Equal(got, body), true)
	})
	check("go-delete-many", func() error {
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &bucket, Delete: &types.Delete{
			Objects: []types.ObjectIdentifier{{Key: aws.String("lock")}, {Key: aws.String("absent")}}}})
		if err != nil {
			return err
		}
		return expect("deleted", len(out.Deleted), 2)
	})
}

func awsMultipart(client *s3.Client, bucket string) {
	body := pattern(23 << 20)
	check("go-multipart", func() error {
		uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize = 8 << 20 })
		if _, err := uploader.Upload(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("large"),
			Body: bytes.NewReader(body)}); err != nil {
			return err
		}
		got := manager.NewWriteAtBuffer(nil)
		if _, err := manager.NewDownloader(client).Download(ctx, got,
			&s3.GetObjectInput{Bucket: &bucket, Key: aws.String("large")}); err != nil {
			return err
		}
		return expect("digest", sha256.Sum256(got.Bytes()), sha256.Sum256(body))
	})
	check("go-copy", func() error {
		if _, err := client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &bucket, Key: aws.String("copy"),
			CopySource: aws.String(bucket + "/large")}); err != nil {
			return err
		}
		head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: aws.String("copy")})
		if err != nil {
			return err
		}
		return expect("size", *head.ContentLength, int64(len(body)))
	})
}

func awsVersions(client *s3.Client, bucket string) {
	check("go-versions", func() error {
		if _, err := client.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: &bucket,
			VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
			return err
		}
		for i := 0; i < 3; i++ {
			if _, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: aws.String("v"),
				Body: strings.NewReader(fmt.Sprint("v", i))}); err != nil {
				return err
			}
		}
		if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: aws.String("v")}); err != nil {
			return err
		}
		list, err := client.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &bucket, Prefix: aws.String("v")})
		if err != nil {
			return err
		}
		if err := expect("versions", len(list.Versions), 3); err != nil {
			return err
		}
		if err := expect("markers", len(list.DeleteMarkers), 1); err != nil {
			return err
		}
		get, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String("v"),
			VersionId: list.Versions[1].VersionId})
		if err != nil {
			return err
		}
		defer get.Body.Close()
		got, _ := io.ReadAll(get.Body)
		return expect("second version", string(got), "v1")
	})
	check("go-tagging", func() error {
		if _, err := client.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: &bucket, Key: aws.String("large"),
			Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("1 2")}}}}); err != nil {
			return err
		}
		got, err := client.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: &bucket, Key: aws.String("large")})
		if err != nil {
			return err
		}
		return expect("tags", len(got.TagSet), 1)
	})
}

func testAWS() {
	loaded, err := config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(access, secret, "")))
	if err != nil {
		panic(err)
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.BaseEndpoint = aws.String(endpoint)
		o.UsePathStyle = true
	})
	bucket := fmt.Sprintf("go-%d", time.Now().UnixNano())
	check("go-create-bucket", func() error {
		_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket})
		return err
	})
	awsObjects(client, bucket)
	awsMultipart(client, bucket)
	awsVersions(client, bucket)
}

func testMinio() {
	client, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{
		Creds: miniocredentials.NewStaticV4(access, secret, ""), Region: "us-east-1", TrailingHeaders: true})
	if err != nil {
		panic(err)
	}
	bucket := fmt.Sprintf("mgo-%d", time.Now().UnixNano())
	body := pattern(20 << 20)
	check("minio-go-put-get", func() error {
		if err := client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}); err != nil {
			return err
		}
		if _, err := client.PutObject(ctx, bucket, "a/b c", bytes.NewReader(body), int64(len(body)),
			minio.PutObjectOptions{PartSize: 5 << 20, UserMetadata: map[string]string{"x": "y"}}); err != nil {
			return err
		}
		object, err := client.GetObject(ctx, bucket, "a/b c", minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		got, err := io.ReadAll(object)
		if err != nil {
			return err
		}
		return expect("digest", sha256.Sum256(got), sha256.Sum256(body))
	})
	check("minio-go-stream", func() error { // of unknown size
		_, err := client.PutObject(ctx, bucket, "stream", io.MultiReader(bytes.NewReader(body)), -1,
			minio.PutObjectOptions{PartSize: 5 << 20})
		return err
	})
	check("minio-go-append", func() error {
		if _, err := client.PutObject(ctx, bucket, "log", strings.NewReader("one"), 3,
			minio.PutObjectOptions{DisableMultipart: true}); err != nil {
			return err
		}
		if _, err := client.AppendObject(ctx, bucket, "log", strings.NewReader("two"), 3, minio.AppendObjectOptions{}); err != nil {
			return err
		}
		object, err := client.GetObject(ctx, bucket, "log", minio.GetObjectOptions{})
		if err != nil {
			return err
		}
		got, err := io.ReadAll(object)
		if err != nil {
			return err
		}
		return expect("bytes", string(got), "onetwo")
	})
	check("minio-go-tags", func() error {
		set, _ := tags.NewTags(map[string]string{"k": "v"}, true)
		if err := client.PutObjectTagging(ctx, bucket, "log", set, minio.PutObjectTaggingOptions{}); err != nil {
			return err
		}
		got, err := client.GetObjectTagging(ctx, bucket, "log", minio.GetObjectTaggingOptions{})
		if err != nil {
			return err
		}
		return expect("tag", got.ToMap()["k"], "v")
	})
	check("minio-go-list-with-metadata", func() error {
		for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithMetadata: true}) {
			if object.Err != nil {
				return object.Err
			}
			if object.Key == "a/b c" {
				for name, value := range object.UserMetadata {
					if strings.EqualFold(name, "X-Amz-Meta-X") {
						return expect("metadata", value, "y")
					}
				}
				return fmt.Errorf("metadata is %v", object.UserMetadata)
			}
		}
		return errors.New("not listed")
	})
	check("minio-go-compose", func() error {
		_, err := client.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "composed"},
			minio.CopySrcOptions{Bucket: bucket, Object: "a/b c"}, minio.CopySrcOptions{Bucket: bucket, Object: "log"})
		return err
	})
	check("minio-go-remove", func() error {
		names := make(chan minio.ObjectInfo)
		go func() {
			defer close(names)
			for object := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
				names <- object
			}
		}()
		for result := range client.RemoveObjects(ctx, bucket, names, minio.RemoveObjectsOptions{}) {
			return result.Err
		}
		return client.RemoveBucket(ctx, bucket)
	})
}

func main() {
	testAWS()
	testMinio()
	if failed {
		os.Exit(1)
	}
}
