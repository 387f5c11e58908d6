"""The region's API over HTTP on loopback: EC2, SSM, S3, STS, CloudWatch, the price list and service quotas."""
